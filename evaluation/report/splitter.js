"use strict";
// The live splitter: what is typed, as two tokenizers split it.
const splitter = (() => {
  const { NUM_BYTES, readClasses, open, encode, idOf, bytesOf } = bytePairs;
  const MOST_SHOWN = 3000; // tokens; more elements would make typing slow
  const NUM_COLOURS = 5;
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

  /** Call `show` for each character of some bytes, and `showByte` for each byte that is not part of one. */
  function spell(bytes, show, showByte) {
    for (let at = 0; at < bytes.length; ) {
      const size = bytes[at] < 0x80 ? 1 : bytes[at] < 0xe0 ? 2 : bytes[at] < 0xf0 ? 3 : 4;
      try {
        show(decoder.decode(new Uint8Array(bytes.slice(at, at + size))));
        at += size;
      } catch {
        showByte("\\x" + bytes[at].toString(16).padStart(2, "0"));
        at++;
      }
    }
  }

  const code = (letter) => "\\u" + (letter.codePointAt(0).toString(16).padStart(4, "0"));
  const isHidden = (letter) => /[\p{C}\p{Z}]/u.test(letter);

  /** A token on one line, with nothing invisible in it. */
  function name(tokenizer, symbol) {
    const known = { " ": "\u2423", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\" };
    let text = "";
    const show = (letter) => { text += known[letter] ?? (isHidden(letter) ? code(letter) : letter); };
    spell(bytesOf(tokenizer, symbol), show, (byte) => { text += byte; });
    return text;
  }

  /** An element of a token as it stands in a text: line ends and tabs are marked and kept. */
  function draw(tokenizer, symbol) {
    const element = document.createElement("span");
    const mark = (text) => {
      const hidden = document.createElement("i");
      hidden.className = "hidden";
      hidden.textContent = text;
      element.append(hidden);
    };
    const known = { "\n": "\u21b5\n", "\r": "\\r", "\t": "\u21e5\t" };
    const show = (letter) => {
      if (letter in known) mark(known[letter]);
      else if (letter !== " " && isHidden(letter)) mark(code(letter));
      else element.append(letter);
    };
    spell(bytesOf(tokenizer, symbol), show, mark);
    element.title = describe(tokenizer, symbol);
    return element;
  }

  const plain = (number) => number.toLocaleString("en");

  /** What is known of a token, in a line. */
  function describe(tokenizer, symbol) {
    const parts = [`id ${idOf(tokenizer, symbol)}`];
    const length = bytesOf(tokenizer, symbol).length;
    parts.push(length === 1 ? "1 byte" : `${length} bytes`);
    const merged = symbol - NUM_BYTES;
    if (merged >= 0) {
      const [left, right] = [tokenizer.lefts[merged], tokenizer.rights[merged]];
      parts.push(`merge ${plain(merged)}: ${name(tokenizer, left)} + ${name(tokenizer, right)}`);
      const counts = tokenizer.counts;
      if (counts && counts[0][merged]) {
        parts.push(["F", "R", "L"].map((label, at) => `${label} ${plain(counts[at][merged])}`).join(", "));
      }
    }
    return parts.join(" \u00b7 ");
  }

  const stored = JSON.parse(document.getElementById("splitter-data").textContent);
  const classes = readClasses(stored.classes);
  const opened = [];
  const tokenizer = (index) => (opened[index] ??= open(stored.tokenizers[index], classes));
  const area = document.getElementById("splitter-text");
  const panes = Array.from(document.querySelectorAll("#splitter .pane"), (element) => ({
    select: element.querySelector("select"),
    figures: element.querySelector(".figures"),
    tokens: element.querySelector(".tokens"),
    detail: element.querySelector(".detail"),
    symbols: [],
  }));

  /** Where tokens start and end, in bytes, as text that can be looked up. */
  function spans(pane) {
    let start = 0;
    return pane.symbols.map((symbol) => {
      const end = start + bytesOf(pane.tokenizer, symbol).length;
      const span = `${start} ${end}`;
      start = end;
      return span;
    });
  }

  function fill(pane, own, others, numBytes) {
    const shown = pane.symbols.slice(0, MOST_SHOWN).map((symbol, at) => {
      const element = draw(pane.tokenizer, symbol);
      element.className = `c${at % NUM_COLOURS}` + (others && !others.has(own[at]) ? " own" : "");
      element.dataset.at = at;
      return element;
    });
    const left = pane.symbols.length - shown.length;
    if (left) shown.push(`\n\u2026 and ${plain(left)} more tokens`);
    pane.tokens.replaceChildren(...shown);
    const number = document.createElement("b");
    number.textContent = plain(pane.symbols.length);
    const rate = pane.symbols.length ? (numBytes / pane.symbols.length).toFixed(2) : "\u2013";
    const alone = others ? `, ${plain(own.filter((span) => !others.has(span)).length)} of them not on the other side` : "";
    pane.figures.replaceChildren(number, ` tokens, ${rate} bytes a token${alone}`);
    pane.detail.textContent = "Point at a token, or tap it, to see what is known of it.";
  }

  function update() {
    const numBytes = encoder.encode(area.value).length;
    document.getElementById("splitter-size").textContent =
      `${plain(Array.from(area.value).length)} characters, ${plain(numBytes)} bytes of UTF-8`;
    const used = panes.filter((pane) => pane.select.options.length);
    for (const pane of used) {
      pane.tokenizer = tokenizer(Number(pane.select.value));
      pane.symbols = encode(pane.tokenizer, area.value);
    }
    const bounds = used.map(spans);
    used.forEach((pane, at) => fill(pane, bounds[at], used.length > 1 ? new Set(bounds[1 - at]) : null, numBytes));
  }

  function choose(pane, event) {
    const element = event.target.closest("[data-at]");
    if (!element) return;
    for (const chosen of pane.tokens.querySelectorAll(".chosen")) chosen.classList.remove("chosen");
    element.classList.add("chosen");
    const symbol = pane.symbols[Number(element.dataset.at)];
    const spelled = document.createElement("code");
    spelled.textContent = name(pane.tokenizer, symbol);
    pane.detail.replaceChildren(spelled, " \u00b7 ", describe(pane.tokenizer, symbol));
  }

  function start() {
    panes.forEach((pane, side) => {
      const isUsed = side < stored.tokenizers.length;
      pane.select.closest(".pane").hidden = !isUsed;
      if (!isUsed) return;
      stored.tokenizers.forEach((one, at) => pane.select.add(new Option(one.name, String(at), at === side, at === side)));
      pane.select.addEventListener("change", update);
      for (const kind of ["click", "pointerover"]) pane.tokens.addEventListener(kind, (event) => choose(pane, event));
    });
    let waiting = 0;
    area.addEventListener("input", () => {
      cancelAnimationFrame(waiting);
      waiting = requestAnimationFrame(update);
    });
    area.value ||= stored.text;
    update();
  }

  start();
  return {
    encode: (index, text) =>
      encode(tokenizer(index), text).map((symbol) => idOf(tokenizer(index), symbol)),
    show: (text) => {
      area.value = text;
      update();
    },
  };
})();
