"use strict";
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  // Theme: that of the system, until the reader chooses one.
  const stored = {
    get() { try { return localStorage.getItem("sae-theme"); } catch { return null; } },
    set(theme) { try { localStorage.setItem("sae-theme", theme); } catch { /* files may have no storage */ } },
  };
  const setTheme = (theme) => {
    root.dataset.theme = theme;
    sayShades(theme);
  };
  // Heat maps: what is darker on white is brighter on black, and their legends say so.
  const sayShades = (theme) => {
    const [from, to] = theme === "dark" ? ["darker", "brighter"] : ["brighter", "darker"];
    for (const text of document.querySelectorAll(".cells svg text")) {
      if (text.textContent.includes(`${from} is better`)) text.textContent = text.textContent.replace(from, to);
    }
  };
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    stored.set(root.dataset.theme);
  });
  system.addEventListener("change", () => {
    if (!stored.get()) setTheme(system.matches ? "dark" : "light");
  });

  // On a phone the metrics of a wide table come first, behind the name of the row.
  if (matchMedia("(max-width: 40rem)").matches) {
    for (const table of document.querySelectorAll("figure.table table:not(.few)")) {
      const isMetric = [...table.tHead.rows[0].cells].map((cell) => cell.querySelector(".better") !== null);
      const rest = [...isMetric.keys()].slice(1);
      const order = [0, ...rest.filter((index) => isMetric[index]), ...rest.filter((index) => !isMetric[index])];
      for (const row of table.rows) {
        const cells = [...row.cells];
        row.append(...order.map((index) => cells[index]));
      }
    }
  }

  // Tables: a click sorts, a second reverses the order, a third restores the original one.
  const NEXT = {
    ascending: { none: "ascending", ascending: "descending", descending: "none" },
    descending: { none: "descending", descending: "ascending", ascending: "none" },
  };
  const compareNumbers = (a, b) => (a < b ? -1 : Number(a > b)); // the difference of two infinities is NaN
  const compareCells = (one, other) => {
    const [a, b] = [one, other].map((cell) => cell.dataset.value);
    if (a !== undefined && b !== undefined) return compareNumbers(Number(a), Number(b));
    if (a !== undefined || b !== undefined) return a !== undefined ? -1 : 1;
    return one.textContent.localeCompare(other.textContent, undefined, { numeric: true });
  };
  const isMissing = (cell) => "missing" in cell.dataset;
  const sortRows = (rows, column, order) => {
    const sign = order === "descending" ? -1 : 1;
    return [...rows].sort((one, other) => {
      const [a, b] = [one.cells[column], other.cells[column]];
      return isMissing(a) - isMissing(b) || (isMissing(a) ? 0 : sign * compareCells(a, b));
    });
  };
  for (const table of document.querySelectorAll("figure.table table")) {
    const body = table.tBodies[0];
    const given = [...body.rows];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = heading.querySelector("button");
      button.addEventListener("click", () => {
        const order = NEXT[button.dataset.first][heading.getAttribute("aria-sort")];
        headings.forEach((other) => other.setAttribute("aria-sort", "none"));
        heading.setAttribute("aria-sort", order);
        body.append(...(order === "none" ? given : sortRows(given, column, order)));
      });
    });
  }
  for (const button of document.querySelectorAll("figure.table > .more")) {
    const table = button.parentElement.querySelector("table");
    const closed = button.textContent;
    button.setAttribute("aria-expanded", "false");
    button.addEventListener("click", () => {
      const whole = table.classList.toggle("whole");
      button.setAttribute("aria-expanded", String(whole));
      button.textContent = whole ? "Show fewer" : closed;
    });
  }

  // Folded parts are open in print, and a link to them opens them in every browser.
  const folded = [...document.querySelectorAll("details")];
  let unfolded = [];
  const unfold = () => {
    const closed = folded.filter((one) => !one.open);
    unfolded.push(...closed);
    closed.forEach((one) => { one.open = true; });
  };
  const openFolds = (anchor) => {
    for (let one = document.getElementById(anchor); one; one = one.parentElement) if (one.tagName === "DETAILS") one.open = true;
  };
  const fold = () => {
    unfolded.forEach((one) => { one.open = false; });
    unfolded = [];
  };
  const print = matchMedia("print");
  const onPaper = () => { unfold(); sayShades("light"); };
  const onScreen = () => { fold(); sayShades(root.dataset.theme); };
  print.addEventListener("change", () => (print.matches ? onPaper() : onScreen()));
  addEventListener("beforeprint", onPaper);
  addEventListener("afterprint", onScreen);
  // Commands: copied if the browser allows it, otherwise selected for the reader to copy.
  const copyOf = async (code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      return "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      return document.execCommand("copy") ? "Copied" : "Selected";
    }
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    button.textContent = await copyOf(button.closest(".box, .pinned").querySelector("code, .copied"));
    setTimeout(() => { button.textContent = "Copy"; }, 1600);
  });

  // Figures.
  const { config, texts, figures, pickers } = JSON.parse(document.getElementById("figures").textContent);
  const views = new Map();
  const LETTER = 7; // pixels per letter of a title

  // Titles are wrapped to the width of their panel.
  const wrap = (text, length) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const last = lines.pop();
      if (last && last.length + 1 + word.length > length) lines.push(last, word);
      else lines.push(last ? `${last} ${word}` : word);
    }
    return lines;
  };
  const wrapTitle = (title, width) => {
    const lines = (text) => [text ?? []].flat().flatMap((line) => wrap(line, width / LETTER));
    if (typeof title === "string") return { text: lines(title), limit: width };
    return title && { ...title, text: lines(title.text), subtitle: lines(title.subtitle), limit: width };
  };

  // Unpacks the rows of page.py: a list with a number stands for a text, an empty list for a missing field.
  const unpackRow = (fields, cells) => {
    const known = cells.map((cell, index) => [fields[index], cell]).filter(([, cell]) => cell?.length !== 0);
    return Object.fromEntries(known.map(([field, cell]) => [field, Array.isArray(cell) ? texts[cell[0]] : cell]));
  };
  const unpack = (spec) => {
    const packed = spec.data?.packed;
    const data = packed && { data: { values: packed.rows.map((cells) => unpackRow(packed.fields, cells)) } };
    return { ...spec, ...data, ...(spec.layer && { layer: spec.layer.map(unpack) }) };
  };
  // What is known of a network at each measure becomes a list: on validation, on test, over new seeds and its deviation.
  for (const picker of Object.values(pickers)) {
    const { fields, rows } = picker.packed;
    picker.rows = rows.map((cells) => {
      const row = unpackRow(fields, cells);
      const listed = (letter) => picker.measures.map((_, index) => row[`${letter}${index}`]);
      return { ...row, v: listed("v"), t: listed("t"), m: listed("m"), s: listed("s"), c: row.c0 === undefined ? null : listed("c") };
    });
  }
  // A folded panel has no width in some browsers: it gets its share of the page's.
  const widthOf = (place) => {
    const isWide = innerWidth >= 700;
    const page = document.querySelector("main").clientWidth / (isWide && place.closest(".half") ? 2 : 1);
    return place.clientWidth || page / Math.min(place.parentElement.children.length, isWide ? 3 : 1);
  };
  const hasCells = (spec) => (spec.mark?.type ?? spec.mark) === "rect" || (spec.layer ?? []).some(hasCells);
  const draw = async (place, spec) => {
    const width = widthOf(place);
    const columns = Math.max(1, Math.floor(width / 120));
    const legend = { ...config.legend, columns, gradientLength: Math.min(200, width * 0.6) };
    if (hasCells(spec)) place.classList.add("cells");
    try {
      const title = wrapTitle(spec.title, width);
      const sized = place.clientWidth ? spec : { ...spec, width };
      const result = await vegaEmbed(place, title ? { ...sized, title } : sized, {
        mode: "vega-lite",
        renderer: "svg",
        actions: false,
        config: { ...config, legend, font: getComputedStyle(document.body).fontFamily },
        tooltip: { disableDefaultStyle: true },
      });
      const names = (spec.params ?? []).map((param) => param.name);
      result.view.sae = {
        isLinked: names.includes("shown"),
        brush: names.find((name) => name.startsWith("brush_")),
        values: spec.data?.values ?? [],
      };
      result.view.addEventListener("click", (event, item) => pin(event, item, place));
      return result.view;
    } catch (error) {
      place.classList.add("failed");
      place.textContent = `This panel could not be drawn: ${error.message}`;
      console.error(error);
      return null;
    }
  };
  const chooser = explore({ pickers, views, openFolds });
  const drawAll = async () => {
    for (const figure of document.querySelectorAll("[data-figure]")) {
      const places = [...figure.querySelectorAll(".panel")];
      const specs = figures[figure.dataset.figure];
      views.set(figure, await Promise.all(places.map((place, index) => draw(place, unpack(specs[index])))));
    }
    chooser.listen();
    sayShades(root.dataset.theme);
    root.dataset.drawn = "true";
  };

  // A click on a mark pins its tooltip, to read and copy, until a click elsewhere or Escape.
  const unpin = () => document.querySelectorAll(".pinned").forEach((box) => box.remove());
  const toolsOf = (box, item, place) => {
    const tools = document.createElement("div");
    const button = (classes, text) => Object.assign(document.createElement("button"), { type: "button", className: classes, textContent: text });
    tools.className = "pin-tools";
    const command = [...box.querySelectorAll("tr")].find((row) => row.cells[0]?.textContent.startsWith("train it"));
    command?.cells[1].classList.add("copied");
    if (command) tools.append(button("copy", "Copy"));
    const figure = place.closest("[data-figure]")?.dataset.figure;
    if (chooser.isChooser && item.datum?.id) {
      const compare = button("more", "Compare");
      compare.addEventListener("click", () => { chooser.compare(figure, item.datum.id); unpin(); });
      tools.append(compare);
    }
    return tools;
  };
  const pin = (event, item, place) => {
    const shown = document.getElementById("vg-tooltip-element");
    if (!item || !item.tooltip || !shown) return;
    unpin();
    const box = document.createElement("div");
    const corner = shown.getBoundingClientRect();
    box.className = "pinned";
    box.append(...[...shown.childNodes].map((node) => node.cloneNode(true)));
    box.append(toolsOf(box, item, place));
    box.style.left = `${corner.left + scrollX}px`;
    box.style.top = `${corner.top + scrollY}px`;
    document.body.append(box);
    shown.classList.remove("visible");
    event.stopPropagation();
  };
  document.addEventListener("click", (event) => { if (!event.target.closest(".pinned")) unpin(); });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") unpin(); });

  // Saves a figure as a picture: its panels side by side, in the colours on screen.
  const colours = (text) => {
    const style = getComputedStyle(root);
    return text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  };
  const panelsOf = async (figure) => {
    if (figure.dataset.drawing) return [figure.querySelector("svg").cloneNode(true)];
    const parser = new DOMParser();
    const texts = await Promise.all(views.get(figure).filter(Boolean).map((view) => view.toSVG()));
    return texts.map((text) => parser.parseFromString(text, "image/svg+xml").documentElement);
  };
  const pictureOf = async (figure) => {
    const gap = 24;
    let [x, height, panels] = [gap, 0, ""];
    for (const svg of await panelsOf(figure)) {
      svg.setAttribute("x", x);
      svg.setAttribute("y", gap);
      x += Number(svg.getAttribute("width")) + gap;
      height = Math.max(height, Number(svg.getAttribute("height")));
      panels += new XMLSerializer().serializeToString(svg);
    }
    const size = { width: x, height: height + 2 * gap };
    const open = `<svg xmlns="http://www.w3.org/2000/svg" width="${size.width}" height="${size.height}">`;
    const text = colours(`${open}<rect width="100%" height="100%" fill="var(--paper)"/>${panels}</svg>`);
    return { ...size, url: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}` };
  };
  const asPng = async ({ width, height, url }) => {
    const image = new Image();
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [2 * width, 2 * height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas.toDataURL("image/png");
  };
  for (const button of document.querySelectorAll(".save")) {
    button.addEventListener("click", async () => {
      const figure = button.closest("[data-figure], [data-drawing]");
      const picture = await pictureOf(figure);
      const link = document.createElement("a");
      link.href = button.dataset.format === "png" ? await asPng(picture) : picture.url;
      link.download = `${figure.dataset.figure ?? figure.dataset.drawing}.${button.dataset.format}`;
      link.click();
    });
  }

  drawAll();
})();
