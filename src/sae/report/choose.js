"use strict";
// Choosing among the candidates of a study by the rule of `sae pick` (analysis/selection.py and analysis/pareto.py).
// A measure is a metric or cost; a row is a candidate, with its validation values in `row.v`, in the order of the measures,
// and, if it was confirmed, with those over new seeds in `row.c`.
const choosing = (() => {
  const FAR_OUT = 3; // interquartile ranges above the third quartile beyond which a loss is an outlier

  const loss = (measure, value) => (measure.maximise ? -value : value);
  const scaledLoss = (measure, value) => (measure.cost && value > 0 ? Math.log(value) : loss(measure, value));
  const lossesOf = (row, compared, measures) =>
    compared.map((index) => (row.v[index] === undefined ? NaN : scaledLoss(measures[index], row.v[index])));
  const lexical = (one, other) => {
    const index = one.findIndex((value, place) => value !== other[place]);
    return index < 0 ? 0 : one[index] - other[index];
  };
  const violation = ({ bound, isMaximum }, value) =>
    (isMaximum ? value - bound : bound - value) / (Math.abs(bound) || 1);
  const keeps = (row, limits) =>
    limits.every((limit) => row.v[limit.index] !== undefined && violation(limit, row.v[limit.index]) <= 0);

  // Sorted points: a later one never dominates an earlier one, and equal ones do not dominate each other.
  const nonDominated = (points) => {
    const order = points.filter((point) => point.losses.every(Number.isFinite));
    order.sort((one, other) => lexical(one.losses, other.losses));
    const front = [];
    for (const point of order) {
      const isWorse = (best) =>
        best.losses.every((value, place) => value <= point.losses[place]) && lexical(best.losses, point.losses) !== 0;
      if (!front.some(isWorse)) front.push(point);
    }
    return new Set(front);
  };

  // The front, each point once: of equal points the first at its trained K, else the first. Best first objective first.
  const frontOf = (rows, compared, measures) => {
    const points = rows.map((row) => ({ row, losses: lossesOf(row, compared, measures) }));
    const best = nonDominated(points);
    const found = points.filter((point) => best.has(point));
    const unique = new Map();
    const trainedFirst = [...found].sort((one, other) => (one.row.at !== one.row.exits) - (other.row.at !== other.row.exits));
    for (const point of trainedFirst) {
      const key = point.losses.join();
      if (!unique.has(key)) unique.set(key, point);
    }
    const kept = new Set(unique.values());
    return found.filter((point) => kept.has(point)).sort((one, other) => lexical(one.losses, other.losses));
  };

  const quantile = (sorted, share) => {
    const place = share * (sorted.length - 1);
    const [low, part] = [Math.floor(place), place - Math.floor(place)];
    const [a, b] = [sorted[low], sorted[Math.min(low + 1, sorted.length - 1)]];
    return part >= 0.5 ? b - (b - a) * (1 - part) : a + (b - a) * part;
  };
  const usualWorst = (values) => {
    const sorted = [...values].sort((a, b) => a - b);
    const [first, third] = [quantile(sorted, 0.25), quantile(sorted, 0.75)];
    const usual = Math.max(...sorted.filter((value) => value <= third + FAR_OUT * (third - first)), -Infinity);
    return usual > sorted[0] ? usual : sorted[sorted.length - 1];
  };
  // The point nearest to the best of all objectives, each scaled to the range of the front without outliers.
  const knee = (points, weights) => {
    const scales = points[0].losses.map((_, place) => {
      const values = points.map((point) => point.losses[place]);
      const [low, high] = [Math.min(...values), usualWorst(values)];
      return { low, spread: high > low ? high - low : 1 };
    });
    const distance = (point) => Math.sqrt(point.losses.reduce((sum, value, place) => {
      const scaled = ((value - scales[place].low) / scales[place].spread) * weights[place];
      return sum + scaled * scaled;
    }, 0));
    return points.reduce((best, point) => (distance(point) < distance(best) ? point : best));
  };
  const preferred = (points, index, measures) => {
    const flops = measures.findIndex((measure) => measure.name === "flops");
    const order = ({ row }) => [loss(measures[index], row.v[index]), row.v[flops] ?? 0];
    return points.reduce((best, point) => (lexical(order(point), order(best)) < 0 ? point : best));
  };

  // What no candidate keeps: the limit, and the candidate that is nearest to it; or all limits at once.
  const outOfReach = (rows, limits) => {
    const excess = (row, limit) => (row.v[limit.index] === undefined ? Infinity : violation(limit, row.v[limit.index]));
    const nearest = (measure) => rows.reduce((best, row) => (measure(row) < measure(best) ? row : best));
    const never = limits.filter((limit) => !rows.some((row) => keeps(row, [limit])));
    if (never.length) return never.map((limit) => ({ limits: [limit], nearest: nearest((row) => excess(row, limit)) }));
    const all = (row) => limits.reduce((sum, limit) => sum + Math.max(0, excess(row, limit)), 0);
    return limits.length ? [{ limits, nearest: nearest(all) }] : [];
  };

  // query: {max, min, weight: numbers by name, method: names or null for all, prefer: a name or null}
  const choose = ({ measures, rows }, query) => {
    const asked = query.method ? rows.filter((row) => query.method.includes(row.method)) : rows;
    const compared = measures.flatMap((measure, index) =>
      (measure.compared || measure.name === query.prefer ? [index] : []));
    const limits = ["max", "min"].flatMap((side) => measures.flatMap((measure, index) => {
      const bound = query[side]?.[measure.name] ?? measure[side];
      return bound === null || bound === undefined ? [] : [{ index, measure, bound, isMaximum: side === "max" }];
    }));
    const fits = asked.filter((row) => keeps(row, limits));
    const confirmed = asked.filter((row) => row.c).map((row) => ({ ...row, v: row.c, searched: row }));
    const inReach = confirmed.filter((row) => keeps(row, limits));
    const whole = frontOf(inReach.filter((row) => !row.failed), compared, measures);
    const again = whole.length ? whole : frontOf(inReach, compared, measures);
    const best = frontOf(fits, compared, measures);
    const [front, finalists] = [best.length ? best : again, again.length ? again : best];
    if (!front.length) return { asked, fits, front: [], limits, compared, pick: null, missed: outOfReach(asked, limits) };
    const weights = compared.map((index) => query.weight?.[measures[index].name] ?? 1);
    const index = measures.findIndex((measure) => measure.name === query.prefer);
    const found = index >= 0 ? preferred(finalists, index, measures) : knee(finalists, weights);
    const searched = ({ row }) => row.searched ?? row;
    const seeds = again.length ? found.row.seeds : 0;
    return { asked, fits, front: front.map(searched), limits, compared, pick: searched(found), seeds, missed: [] };
  };
  return { choose, loss };
})();
