"""
A table, beside scikit-learn's models
=====================================

The estimator has scikit-learn's interface. On the breast-cancer table (569 rows) it stands beside logistic
regression, a forest and boosting, all with their defaults. One split of one small table decides nothing; the
page *Estimators* has twelve tables.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sae import SAEClassifier

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)
models = {
    "SAE": SAEClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "forest": RandomForestClassifier(random_state=0),
    "boosting": HistGradientBoostingClassifier(random_state=0),
}

# %%
# Accuracy says how often the class is right, NLL also how good the probabilities are.

losses = {}
for name, model in models.items():
    started = time.process_time()
    probs = model.fit(X_train, y_train).predict_proba(X_test)
    losses[name] = log_loss(y_test, np.clip(probs, 1e-15, 1))
    right = accuracy_score(y_test, probs.argmax(axis=1))
    print(f"{name:20s} accuracy {right:.3f}, NLL {losses[name]:.3f}, {time.process_time() - started:.1f} s")

figure, panel = plt.subplots(figsize=(6, 2.5), layout="constrained")
panel.barh(list(losses), list(losses.values()), color=["tab:red", "gray", "gray", "gray"])
panel.set(xlabel="NLL on 143 test rows, lower is better")
panel.invert_yaxis()
plt.show()

# %%
# Sets of classes that hold the truth with a promised probability. The promise is about the average: on 143 rows, the
# measured share is easily two points off.

sets = models["SAE"].predict_set(X_test, coverage=0.95)
covered = sets[np.arange(len(y_test)), y_test].mean()
print(f"mean size of a set {sets.sum(axis=1).mean():.2f}, truth inside {covered:.3f}")
