"use strict";
// Limits, weights and filters that move the recommendation; links between figures and tables; a comparison of two
// networks. The address keeps all of it. page.js gives what it draws with: { pickers, views, openFolds }.
const explore = ({ pickers, views, openFolds }) => {
  const make = (name, classes = "", text = "") => {
    const made = document.createElement(name);
    if (classes) made.className = classes;
    made.textContent = text;
    return made;
  };
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  // Numbers for people, in the unit of their measure, with the decimals of its column.
  const inUnit = ({ divisor, digits }, value) => {
    const shown = value / divisor;
    return digits === null ? Math.round(shown).toLocaleString("en") : shown.toFixed(digits);
  };
  const exact = ({ whole }, value) => (whole ? value.toLocaleString("en", { maximumFractionDigits: 0 }) : String(Number(value.toPrecision(4))));
  const heading = ({ title, better }) => `${title} ${better}`;
  const limitText = ({ measure, bound, isMaximum }) => `${measure.label} ${isMaximum ? "≤" : "≥"} ${exact(measure, bound)}`;
  const named = (row) => (row.shown === null ? row.label : `${row.label}, K′=${row.shown}`);

  // The address: an anchor, then what the reader has set, e.g. #search&max.flops=300000&compare=sae/3@2,standard/0.
  const readAddress = () => {
    const words = location.hash.slice(1).split("&").filter(Boolean).map(decodeURIComponent);
    const pairs = words.filter((word) => word.includes("=")).map((word) => {
      const cut = word.indexOf("=");
      return [word.slice(0, cut), word.slice(cut + 1)];
    });
    return { anchor: words.find((word) => !word.includes("=")) ?? "", settings: new Map(pairs) };
  };
  const writeAddress = (anchor, settings) => {
    const escaped = (text) => encodeURIComponent(text).replace(/%2F/g, "/").replace(/%2C/g, ",").replace(/%40/g, "@");
    const words = [...(anchor ? [escaped(anchor)] : []), ...[...settings].map(([key, value]) => `${escaped(key)}=${escaped(value)}`)];
    const hash = words.length ? `#${words.join("&")}` : "";
    if (hash !== location.hash) history.replaceState(null, "", hash || location.pathname + location.search);
  };
  const SIDES = ["max", "min", "weight"];
  const SHARED = new Map(); // what all pickers have set, by key

  const start = (box) => {
    const name = box.dataset.picker;
    const picker = pickers[name];
    const { measures, rows } = picker;
    const prefix = name === "pick" ? "" : name.replace(/pick$/, "");
    const byKey = new Map(rows.map((row) => [row.key, row]));
    const scope = box.closest("section");
    const given = {
      sentence: scope.querySelector(".sentence, .intro"),
      receipt: scope.querySelector("figure.table"),
      commands: [...scope.querySelectorAll(".command")],
    };
    const own = { sentence: make("p", given.sentence.className), receipt: make("div"), commands: make("div") };
    own.sentence.setAttribute("aria-live", "polite");
    given.sentence.after(own.sentence);
    given.receipt.after(own.receipt);
    (given.commands.at(-1) ?? box).after(own.commands);

    let state = { max: {}, min: {}, weight: {}, method: null, prefer: null, hiddenStates: [], pair: [] };
    let brushed = null; // keys of networks in the brush, and where it was drawn

    const isOwn = () =>
      SIDES.some((side) => Object.keys(state[side]).length) || state.method !== null || state.prefer !== null;

    // Controls.
    const limits = [...box.querySelectorAll(".limit")].map((line) => {
      const index = Number(line.dataset.measure);
      const measure = measures[index];
      const [range, number] = line.querySelectorAll("input");
      const side = line.dataset.side;
      const known = rows.map((row) => row.v[index]).filter((value) => value !== undefined);
      const steps = [...new Set(known)].sort((a, b) => a - b);
      const most = Math.min(100, Math.max(1, steps.length));
      [range.min, range.max, range.step] = [0, most, 1];
      // A slider moves from value to value of the candidates; at its loose end there is no limit.
      const loose = side === "max" ? most : 0;
      const valueAt = (place) => {
        if (place === loose || !steps.length) return null;
        const rank = side === "max" ? place / most : (place - 1) / most;
        const value = steps[Math.round(rank * (steps.length - 1))];
        const shown = value / measure.divisor;
        const unit = 10 ** (Math.floor(Math.log10(Math.abs(shown) || 1)) - 2); // three digits, rounded to the loose side
        const rounded = (side === "max" ? Math.ceil(shown / unit - 1e-9) : Math.floor(shown / unit + 1e-9)) * unit;
        return raw(Number(rounded.toPrecision(3)));
      };
      const raw = (shown) => (measure.whole ? Math.round(shown * measure.divisor) : shown * measure.divisor);
      const placeOf = (value) => {
        const keeping = steps.filter((step) => (side === "max" ? step <= value : step >= value)).length / (steps.length || 1);
        const place = Math.round(side === "max" ? keeping * most : (1 - keeping) * most);
        return side === "max" ? Math.min(place, most - 1) : Math.max(place, 1);
      };
      const set = (value) => {
        if (value === null) delete state[side][measure.name];
        else state[side][measure.name] = value;
        refresh();
      };
      range.addEventListener("input", () => set(valueAt(Number(range.value))));
      number.addEventListener("input", () => {
        if (number.value === "") set(null);
        else if (Number.isFinite(number.valueAsNumber)) set(raw(number.valueAsNumber));
      });
      const show = () => {
        const value = state[side][measure.name] ?? measure[side];
        const isNone = value === null || value === undefined;
        range.value = isNone ? loose : placeOf(value);
        range.setAttribute("aria-valuetext", isNone ? "no limit" : exact(measure, value));
        if (document.activeElement !== number) number.value = isNone ? "" : Number((value / measure.divisor).toPrecision(6));
        line.classList.toggle("set", !isNone);
      };
      return { show };
    });
    const weights = [...box.querySelectorAll(".weight")].map((line) => {
      const measure = measures[Number(line.dataset.measure)];
      const [range, output] = [line.querySelector("input"), line.querySelector("output")];
      range.addEventListener("input", () => {
        if (Number(range.value) === 1) delete state.weight[measure.name];
        else state.weight[measure.name] = Number(range.value);
        if (measures.filter((one) => one.compared).every((one) => state.weight[one.name] === 0)) delete state.weight[measure.name];
        refresh();
      });
      const show = () => {
        range.value = state.weight[measure.name] ?? 1;
        range.disabled = state.prefer !== null;
        output.textContent = range.value;
      };
      return { show };
    });
    const methods = [...box.querySelectorAll("input[name=method]")];
    const readMethods = () => {
      const chosen = methods.filter((one) => one.checked).map((one) => one.value);
      state.method = chosen.length === methods.length || !chosen.length ? null : chosen;
      refresh();
    };
    methods.forEach((one) => one.addEventListener("change", readMethods));
    const prefer = box.querySelector("select");
    prefer.addEventListener("change", () => {
      state.prefer = prefer.value || null;
      if (state.prefer) state.weight = {};
      refresh();
    });
    box.querySelector(".reset").addEventListener("click", () => {
      state = { ...state, max: {}, min: {}, weight: {}, method: null, prefer: null };
      refresh();
    });
    box.querySelector("form").addEventListener("submit", (event) => event.preventDefault());

    // Tables: each has columns of texts, and rows of texts with a heading first.
    const tableOf = (title, columns, lines, caption) => {
      const figure = make("figure", "table");
      const table = make("table", columns.length <= 4 ? "few" : "");
      const head = table.createTHead().insertRow();
      columns.forEach((column) => {
        const cell = make("th", "plain", column);
        cell.scope = "col";
        head.append(cell);
      });
      const body = table.createTBody();
      for (const line of lines) {
        const row = body.insertRow();
        line.forEach((text, index) => {
          const cell = make(index ? "td" : "th", "", "");
          if (!index) cell.scope = "row";
          cell.append(make("div", "", text));
          row.append(cell);
        });
      }
      const scroll = make("div", "scroll");
      scroll.tabIndex = 0;
      scroll.setAttribute("role", "region");
      scroll.setAttribute("aria-label", title);
      scroll.append(table);
      figure.append(make("h3", "", title), scroll, make("figcaption", "", caption));
      return figure;
    };
    const tested = (row, index) => {
      const measure = measures[index];
      if (row.m[index] !== undefined) {
        const spread = row.s[index] ? ` ±\u00a0${inUnit(measure, row.s[index])}` : "";
        return `${inUnit(measure, row.m[index])}${spread}`;
      }
      return row.t[index] === undefined ? "–" : inUnit(measure, row.t[index]);
    };
    const source = (row) => (row.seeds ? plural(row.seeds, "new seed") : "the search's own seed");
    const known = (index) => rows.some((row) => row.v[index] !== undefined);
    const chosenBy = (row) => row.c ?? row.v; // of a confirmed one means over new seeds, and costs of the network to ship
    const shownBy = (row, index) => (chosenBy(row)[index] === undefined ? "–" : inUnit(measures[index], chosenBy(row)[index]));
    const linesOf = (compared) => {
      const each = (text) => compared.map((row) => text(row));
      const costs = measures.flatMap((measure, index) => (measure.cost && known(index) ? [index] : []));
      const metrics = measures.flatMap((measure, index) => (!measure.cost && known(index) ? [index] : []));
      const multiple = (row, index) => {
        const [own, first] = [chosenBy(row)[index], chosenBy(compared[0])[index]];
        return own === undefined || first === undefined || own === first ? "" : ` (${Number((own / first).toPrecision(3))}\u00a0×)`;
      };
      return [
        ["configuration", ...each((row) => `${named(row)}: ${row.kind}, ${row.settings}`)],
        ...metrics.map((index) => [`${heading(measures[index])}, validation`, ...each((row) => shownBy(row, index))]),
        ["numbers from", ...each(source)],
        ...metrics.filter((index) => rows.some((row) => row.t[index] !== undefined)).map((index) => [`${heading(measures[index])}, test`, ...each((row) => tested(row, index))]),
        ...costs.map((index) => [heading(measures[index]), ...each((row) => shownBy(row, index) + multiple(row, index))]),
      ];
    };

    // Commands that choose, ship and train the same network again.
    const commandBox = (purpose, line) => {
      const command = make("div", "command");
      const frame = make("div", "box");
      const code = make("code", "", line);
      const pre = make("pre");
      pre.append(code);
      const copy = make("button", "copy", "Copy");
      copy.type = "button";
      frame.append(pre, copy);
      command.append(make("p", "", purpose), frame);
      return command;
    };
    const flags = () => [
      ...["max", "min"].flatMap((side) => Object.entries(state[side]).map(([key, value]) => `--${side} ${key}=${value}`)),
      ...(state.method ? [`--method ${state.method.join(",")}`] : []),
      ...(state.prefer ? [`--prefer ${state.prefer}`] : []),
    ];
    const weightFlags = () => Object.entries(state.weight).map(([key, value]) => `--weight ${key}=${value}`);
    const exportLine = (row) => {
      if (!weightFlags().length) return ["sae export", picker.folder, ...flags(), "--out shipped/model.onnx"].join(" ");
      const exits = row.shown === null ? "" : ` --eval-exits ${row.at}`;
      return `sae export ${picker.folder}/${row.run}${exits} --out shipped/model.onnx`;
    };

    // The answer: another sentence, receipt and commands wherever the reader's choice is not the study's own.
    const answer = (found) => {
      const isMoved = isOwn();
      [given.sentence, given.receipt, ...given.commands].forEach((one) => { one.hidden = isMoved; });
      Object.values(own).forEach((one) => { one.hidden = !isMoved; one.replaceChildren(); });
      const within = found.limits.map(limitText).join(", ");
      const status = box.querySelector(".status");
      box.dataset.pick = "";
      if (!found.pick) {
        const told = found.missed.map(({ limits: broken, nearest }) => {
          const values = broken.map(({ measure, index }) => `${measure.label} ${nearest.v[index] === undefined ? "unknown" : exact(measure, nearest.v[index])}`);
          return `none has ${broken.map(limitText).join(" and ")}; the nearest, ${named(nearest)}, has ${values.join(", ")}`;
        });
        const why = told.length ? `: ${told.join("; ")}.` : ".";
        status.textContent = `Nothing fits ${within || "this choice"}.`;
        own.sentence.textContent = `No candidate fits your choice${why}`;
        return;
      }
      const { pick, front, fits, asked } = found;
      box.dataset.pick = pick.key;
      status.textContent = `${fits.length.toLocaleString("en")} of ${plural(asked.length, "candidate")} fit; ${front.length} Pareto-optimal. Pick: ${named(pick)}.`;
      if (!isMoved) return;
      const using = pick.shown === null ? "" : `, using ${plural(pick.shown, "exit")} per input`;
      own.sentence.textContent = `Your choice${within ? `, with ${within},` : ""} picks ${pick.label}: ${pick.kind} (${pick.settings})${using}, ${found.seeds ? `by means over ${plural(found.seeds, "new seed")}` : "by one seed: it was not confirmed"}.`;
      const others = Object.entries(picker.compared).filter(([, key]) => byKey.has(key) && key !== pick.key);
      const columns = ["Measure", "your pick", ...others.map(([role]) => (role === "the pick" ? "the study's pick" : role))];
      own.receipt.append(tableOf(
        "Receipt of your pick",
        columns,
        linesOf([pick, ...others.map(([, key]) => byKey.get(key))]),
        `Chosen on validation as sae pick does: among confirmed configurations within your limits, else among the ${plural(fits.length, "candidate")} there. Means ± standard deviations are over new seeds, where there are any; else numbers are of the search's one seed. Costs: of the network to ship; in brackets: multiples of your pick's.`,
      ));
      own.commands.append(
        commandBox("Choose it again.", ["sae pick", picker.folder, ...flags(), ...weightFlags()].join(" ")),
        commandBox("Export it.", exportLine(pick)),
        commandBox("Train it again.", pick.command),
      );
    };

    // Links: marks, rows and lines of networks that are filtered out fade or disappear.
    const mine = (figure) => !prefix || (figure ?? "").startsWith(prefix);
    const setSignals = (found, shown) => {
      const keys = (list) => Object.fromEntries(list.map((row) => [row.key, true]));
      const front = isOwn() ? keys(found.front) : null;
      const picked = isOwn() ? found.pick?.key ?? "none" : null;
      const visible = shown ? Object.fromEntries([...shown].map((key) => [key, true])) : null;
      for (const [figure, drawn] of views) {
        if (!mine(figure.dataset.figure)) continue;
        const base = figure.dataset.figure.slice(prefix.length);
        for (const view of drawn.filter((one) => one?.sae?.isLinked)) {
          view.signal("shown", visible);
          if (["search", "parallel"].includes(base)) view.signal("front", front);
          view.signal("picked", picked);
          view.runAsync();
        }
      }
    };
    const tables = [...document.querySelectorAll("figure.table")].filter((figure) => figure.querySelector("tr[data-key]") && mine(figure.id.slice("table-".length)));
    const filterTables = (shown) => {
      const trials = shown && new Set([...shown].map((key) => key.split("@")[0]));
      for (const figure of tables) {
        const lines = [...figure.querySelectorAll("tr[data-key]")];
        const place = [...figure.querySelectorAll("thead th")].findIndex((cell) => cell.textContent.trim() === "State");
        let visible = 0;
        for (const line of lines) {
          const key = line.dataset.key;
          const isIn = !shown || shown.has(key) || (!key.includes("@") && trials.has(key)) || (place >= 0 && !byKeyOrTrial(key));
          const isHidden = place >= 0 && state.hiddenStates.includes(line.cells[place].textContent.trim());
          line.classList.toggle("outside", !isIn || isHidden);
          visible += isIn && !isHidden;
          line.classList.toggle("compared", state.pair.includes(key));
        }
        const isFiltered = visible < lines.length;
        figure.querySelector("table").classList.toggle("filtered", isFiltered);
        const note = figure.querySelector(".filter-note") ?? figure.querySelector(".scroll").insertAdjacentElement("afterend", make("p", "filter-note"));
        note.textContent = isFiltered ? `${visible} of ${plural(lines.length, "row")}: the others are filtered out.` : "";
      }
    };
    const trialNames = new Set(rows.map((row) => row.label));
    const byKeyOrTrial = (key) => byKey.has(key) || trialNames.has(key); // a trial without a result is no candidate

    // The bar at the bottom says that a brush filters, and clears it.
    const bar = document.body.appendChild(make("div", "brush-bar"));
    bar.hidden = true;
    const clear = make("button", "more", "Show all");
    clear.type = "button";
    const clearBrush = () => {
      if (!brushed) return;
      const { view, store } = brushed;
      brushed = null;
      view.data(store, []).runAsync();
      refresh();
    };
    clear.addEventListener("click", clearBrush);
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") clearBrush(); });
    const brush = (view, signal, values, area) => {
      const fields = Object.keys(area ?? {});
      if (!fields.length) {
        if (brushed?.view === view) { brushed = null; refresh(); }
        return;
      }
      const isInside = (row) => fields.every((field) => {
        const [low, high] = [...area[field]].sort((a, b) => a - b);
        return row[field] >= low && row[field] <= high;
      });
      const before = brushed;
      brushed = { keys: new Set(values.filter(isInside).map((row) => row.id)), view, store: `${signal}_store` };
      if (before && before.view !== view) before.view.data(before.store, []).runAsync();
      refresh();
    };
    const listen = () => {
      for (const [figure, drawn] of views) {
        if (!mine(figure.dataset.figure)) continue;
        for (const view of drawn.filter((one) => one?.sae?.brush)) {
          const { brush: signal, values } = view.sae;
          view.addSignalListener(signal, (_, area) => brush(view, signal, values, area));
        }
      }
    };

    // Two networks side by side.
    const place = scope.querySelector(".compare");
    const inputs = [...place.querySelectorAll("input")];
    const resolve = (text) => {
      const cleaned = text.trim().replace(/, K′=/, "@");
      if (byKey.has(cleaned)) return byKey.get(cleaned);
      const ofTrial = rows.filter((row) => row.label === cleaned);
      return ofTrial.find((row) => row.at === row.exits) ?? ofTrial[0];
    };
    const options = place.querySelector("datalist");
    options.append(...rows.slice(0, 2000).map((row) => Object.assign(make("option"), { value: row.key, label: `${row.kind}, ${row.settings}` })));
    const compare = (key) => {
      const row = resolve(key);
      if (!row) return;
      if (state.pair.includes(row.key)) state.pair = state.pair.filter((one) => one !== row.key);
      else state.pair = [...state.pair.slice(-1), row.key];
      place.open = true;
      refresh();
    };
    inputs.forEach((input, index) => input.addEventListener("change", () => {
      const row = resolve(input.value);
      const pair = [...state.pair];
      if (row) pair[index] = row.key;
      else pair.splice(index, 1);
      state.pair = [...new Set(pair.filter(Boolean))];
      refresh();
    }));
    const difference = (one, other, index, paired) => {
      const measure = measures[index];
      const isConfirmed = one.m[index] !== undefined && other.m[index] !== undefined;
      const [a, b] = measure.cost ? [chosenBy(one)[index], chosenBy(other)[index]] : isConfirmed ? [one.m[index], other.m[index]] : [one.t[index], other.t[index]];
      if (a === undefined || b === undefined) return "–";
      const change = paired?.value ?? a - b;
      const verdict = paired?.verdict ?? (change === 0 ? "equal" : choosing.loss(measure, change) < 0 ? "first better" : "second better");
      return `${change < 0 ? "−" : "+"}${inUnit(measure, Math.abs(change))} (${verdict})`;
    };
    const intervalOf = (one, other) => {
      const found = picker.intervals.filter((item) => [item.one, item.other].sort().join() === [one.key, other.key].sort().join());
      return new Map(found.map((item) => {
        const sign = item.one === one.key ? 1 : -1;
        const isFirst = (item.verdict === "better") === (sign > 0);
        const verdict = ["better", "worse"].includes(item.verdict) ? `${isFirst ? "first" : "second"} better` : item.verdict;
        return [item.metric, { value: sign * item.value, bounds: [sign * item.low, sign * item.high].sort((a, b) => a - b), verdict }];
      }));
    };
    const compareText = (one, other) => {
      const folder = (row) => `${picker.folder}/${row.run}`;
      const at = (flag, row) => (row.shown === null ? "" : ` ${flag} ${row.at}`);
      return `sae compare ${folder(one)}${at("--eval-exits", one)} --with ${folder(other)}${at("--with-exits", other)}`;
    };
    const showPair = () => {
      inputs.forEach((input, index) => { if (document.activeElement !== input) input.value = state.pair[index] ?? ""; });
      const result = place.querySelector(".compared-pair");
      result.replaceChildren();
      const pair = state.pair.map((key) => byKey.get(key));
      if (pair.length < 2) {
        if (pair.length) result.append(make("p", "filter-note", `${named(pair[0])} is the first. Choose a second one: click a row's name or a mark.`));
        return;
      }
      const [one, other] = pair;
      const intervals = intervalOf(one, other);
      const lines = linesOf(pair);
      const index = new Map(measures.flatMap((measure, number) => [[`${heading(measure)}, test`, number], ...(measure.cost ? [[heading(measure), number]] : [])]));
      const full = lines.map((line) => {
        const number = index.get(line[0]);
        if (number === undefined) return [...line, ""];
        const paired = intervals.get(measures[number].name);
        const shown = paired ? `, 95 % interval ${paired.bounds.map((bound) => (bound < 0 ? "−" : "") + inUnit(measures[number], Math.abs(bound))).join(" to ")}` : "";
        return [...line, difference(one, other, number, paired) + shown];
      });
      const told = intervals.size
        ? `Intervals: over test samples (paired bootstrap, ${picker.resamples.toLocaleString("en")} resamples) and new seeds; not corrected for how many networks you compare. The command below compares the runs of the search, of one seed.`
        : "No paired comparison of these two is on this page, so a difference may be luck; the command below makes one, if both have kept their predictions.";
      result.append(
        tableOf("Two networks side by side", ["Measure", named(one), named(other), "first − second"], full, `The first is better where its difference points to its side of the arrow. ${told}`),
        commandBox("Compare them on the same test samples.", compareText(one, other)),
      );
    };

    // State ↔ address.
    const readState = (settings) => {
      const mineOnly = new Map([...settings].filter(([key]) => key.startsWith(prefix)).map(([key, value]) => [key.slice(prefix.length), value]));
      const next = { max: {}, min: {}, weight: {}, method: null, prefer: null, hiddenStates: [], pair: [] };
      for (const [key, value] of mineOnly) {
        const [side, ...rest] = key.split(".");
        const measure = rest.join(".");
        if (SIDES.includes(side) && measures.some((one) => one.name === measure) && value !== "" && Number.isFinite(Number(value))) next[side][measure] = Number(value);
      }
      const method = (mineOnly.get("method") ?? "").split(",").filter((one) => picker.methods.includes(one));
      if (method.length && method.length < picker.methods.length) next.method = method;
      if (measures.some((measure) => measure.name === mineOnly.get("prefer"))) next.prefer = mineOnly.get("prefer");
      next.hiddenStates = (mineOnly.get("hide") ?? "").split(",").filter(Boolean);
      next.pair = (mineOnly.get("compare") ?? "").split(",").filter((key) => byKey.has(key)).slice(0, 2);
      return next;
    };
    const settingsOf = () => [
      ...SIDES.flatMap((side) => Object.entries(state[side]).map(([key, value]) => [`${side}.${key}`, String(value)])),
      ...(state.method ? [["method", state.method.join(",")]] : []),
      ...(state.prefer ? [["prefer", state.prefer]] : []),
      ...(state.hiddenStates.length ? [["hide", state.hiddenStates.join(",")]] : []),
      ...(state.pair.length ? [["compare", state.pair.join(",")]] : []),
    ].map(([key, value]) => [prefix + key, value]);

    // States of trials: checkboxes above the table of all trials.
    const trials = tables.find((figure) => figure.id === `table-${prefix}trials`);
    const stateBoxes = [];
    if (trials) {
      const column = [...trials.querySelectorAll("thead th")].findIndex((cell) => cell.textContent.trim() === "State");
      const found = [...new Set([...trials.querySelectorAll("tr[data-key]")].map((line) => line.cells[column].textContent.trim()))];
      if (found.length > 1) {
        const group = make("fieldset", "states");
        group.append(make("legend", "", "State"));
        for (const text of found) {
          const label = make("label", "", ` ${text}`);
          const checkbox = Object.assign(document.createElement("input"), { type: "checkbox", checked: true, value: text });
          checkbox.addEventListener("change", () => {
            state.hiddenStates = stateBoxes.filter((one) => !one.checked).map((one) => one.value);
            refresh();
          });
          label.prepend(checkbox);
          group.append(label);
          stateBoxes.push(checkbox);
        }
        trials.querySelector(".scroll").before(group);
      }
    }
    // The first cell of a row about a network is a button that compares it.
    for (const figure of tables) {
      for (const line of figure.querySelectorAll("tr[data-key]")) {
        if (!resolve(line.dataset.key)) continue;
        const cell = line.cells[0].querySelector("div");
        const button = make("button", "name", cell.textContent);
        button.type = "button";
        button.title = "Compare it with another";
        button.addEventListener("click", () => compare(line.dataset.key));
        cell.replaceChildren(button);
      }
    }

    let waiting = null;
    const refresh = () => {
      const found = choosing.choose(picker, state);
      limits.forEach((one) => one.show());
      weights.forEach((one) => one.show());
      methods.forEach((one) => { one.checked = !state.method || state.method.includes(one.value); });
      stateBoxes.forEach((one) => { one.checked = !state.hiddenStates.includes(one.value); });
      prefer.value = state.prefer ?? "";
      box.querySelector(".reset").hidden = !isOwn();
      answer(found);
      showPair();
      const fits = isOwn() ? new Set(found.fits.map((row) => row.key)) : null;
      const shown = brushed ? new Set([...brushed.keys].filter((key) => !fits || fits.has(key))) : fits;
      filterTables(shown);
      bar.replaceChildren(...(brushed ? [make("span", "", `${plural(brushed.keys.size, "network")} brushed. `), clear] : []));
      bar.hidden = !brushed;
      clearTimeout(waiting);
      waiting = setTimeout(() => setSignals(found, shown), 60); // figures follow when the slider rests
      for (const key of [...SHARED.keys()].filter((one) => one.startsWith(prefix))) SHARED.delete(key);
      for (const [key, value] of settingsOf()) SHARED.set(key, value);
      writeAddress(readAddress().anchor, SHARED);
    };
    const restore = () => {
      state = readState(readAddress().settings);
      if (state.pair.length) place.open = true;
      refresh();
    };
    return { restore, listen, compare, owns: mine };
  };

  const started = [...document.querySelectorAll("[data-picker]")].map(start);
  const restoreAll = () => {
    const { anchor, settings } = readAddress();
    SHARED.clear();
    settings.forEach((value, key) => SHARED.set(key, value));
    started.forEach((one) => one.restore());
    if (anchor) {
      openFolds(anchor);
      document.getElementById(anchor)?.scrollIntoView();
    }
  };
  restoreAll();
  addEventListener("hashchange", restoreAll);
  // A link inside the page keeps what the reader has set.
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (!link || event.ctrlKey || event.metaKey) return;
    const anchor = link.getAttribute("href").slice(1);
    openFolds(anchor);
    if (!started.length) return;
    event.preventDefault();
    document.getElementById(anchor)?.scrollIntoView();
    writeAddress(anchor, SHARED);
  });
  return {
    listen: () => started.forEach((one) => one.listen()),
    compare: (figure, key) => started.find((one) => one.owns(figure))?.compare(key),
    isChooser: started.length > 0,
  };
};
