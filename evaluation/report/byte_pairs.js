"use strict";
// Byte-level BPE in the reader's browser: the same ids as the tokenizers give where they were made.
// Symbols count tokens as merges make them: bytes 0-255, then 256 + number of the merge.
const bytePairs = (() => {
  const NUM_BYTES = 256;
  const MOST_SYMBOLS = 2 ** 24; // more than any vocabulary has
  const MOST_PLACES = 2 ** 28; // more bytes than a page can hold
  const MOST_REMEMBERED = 64; // characters of a word that is merged once and then looked up
  // A character of each class, old enough for every browser to know it.
  const STANDS_FOR = {
    uppercase: "\u00c0", lowercase: "\u00e0", titlecase: "\u01c5", modifier: "\u02b0", other_letter: "\u00aa",
    mark: "\u0300", number: "\u00b2", space: "\u00a0", other: "\u00a1",
  };
  const LONG_S = 0x17f; // the one letter beyond ASCII that patterns name
  const encoder = new TextEncoder();

  /** Whole numbers of 7 bits a byte, the lowest first, in base64. */
  function readNumbers(text) {
    const bytes = atob(text);
    const numbers = [];
    let number = 0, scale = 1;
    for (let at = 0; at < bytes.length; at++) {
      const byte = bytes.charCodeAt(at);
      number += (byte & 127) * scale;
      scale *= 128;
      if (byte < 128) {
        numbers.push(number);
        number = 0;
        scale = 1;
      }
    }
    return numbers;
  }

  /** The class of every code point, by the Unicode version of the tokenizers, whatever that of the browser. */
  function readClasses({ names, lengths, classes }) {
    const table = new Uint8Array(0x110000);
    const numbers = readNumbers(classes);
    let start = 0;
    readNumbers(lengths).forEach((length, run) => {
      table.fill(numbers[run], start, start + length);
      start += length;
    });
    return { table, characters: names.map((name) => STANDS_FOR[name]) };
  }

  /** A tokenizer that is ready to encode. */
  function open(stored, classes) {
    const lefts = readNumbers(stored.lefts);
    const rights = readNumbers(stored.rights);
    const ranks = new Map();
    lefts.forEach((left, rank) => ranks.set(left * MOST_SYMBOLS + rights[rank], rank));
    const counts = stored.counts && stored.counts.map(readNumbers);
    const ids = stored.ids && readNumbers(stored.ids);
    const pattern = stored.pattern && new RegExp(stored.pattern, "gu");
    return { classes, pattern, lefts, rights, ranks, ids, counts, words: new Map(), spelled: [] };
  }

  /** The words of a text, between which nothing is merged. */
  function split(text, pattern, { table, characters }) {
    if (!pattern) return text ? [text] : [];
    const letters = Array.from(text);
    const classified = letters.map((letter) => {
      const code = letter.codePointAt(0);
      return code < 128 || code === LONG_S ? letter : characters[table[code]];
    });
    const found = classified.join("").matchAll(pattern);
    return Array.from(found, (match) => letters.slice(match.index, match.index + match[0].length).join(""));
  }

  /** Symbols of a word: merged by the lowest rank, the leftmost of several, through a heap of rank and place. */
  function merge(bytes, ranks) {
    const size = bytes.length;
    const symbols = Array.from(bytes);
    const nexts = symbols.map((_, place) => place + 1);
    const befores = symbols.map((_, place) => place - 1);
    const heap = [];
    const rankAt = (place) => {
      if (place < 0 || nexts[place] >= size) return undefined;
      return ranks.get(symbols[place] * MOST_SYMBOLS + symbols[nexts[place]]);
    };
    const offer = (place) => {
      const rank = rankAt(place);
      if (rank !== undefined) push(heap, rank * MOST_PLACES + place);
    };
    for (let place = 0; place < size; place++) offer(place);
    while (heap.length) {
      const key = pop(heap);
      const place = key % MOST_PLACES;
      const rank = (key - place) / MOST_PLACES;
      if (symbols[place] < 0 || rankAt(place) !== rank) continue; // merged otherwise since it was offered
      const right = nexts[place];
      symbols[place] = NUM_BYTES + rank;
      symbols[right] = -1;
      nexts[place] = nexts[right];
      if (nexts[place] < size) befores[nexts[place]] = place;
      offer(befores[place]);
      offer(place);
    }
    return symbols.filter((symbol) => symbol >= 0);
  }

  function push(heap, key) {
    let at = heap.length;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (heap[above] <= key) break;
      heap[at] = heap[above];
      at = above;
    }
    heap[at] = key;
  }

  function pop(heap) {
    const top = heap[0];
    const last = heap.pop();
    const size = heap.length;
    let at = 0;
    while (size) {
      let below = 2 * at + 1;
      if (below + 1 < size && heap[below + 1] < heap[below]) below++;
      if (below >= size || heap[below] >= last) break;
      heap[at] = heap[below];
      at = below;
    }
    if (size) heap[at] = last;
    return top;
  }

  /** The symbols of a text, in which nothing is special. */
  function encode(tokenizer, text) {
    const symbols = [];
    for (const word of split(text, tokenizer.pattern, tokenizer.classes)) {
      let merged = tokenizer.words.get(word);
      if (!merged) {
        merged = merge(encoder.encode(word), tokenizer.ranks);
        if (word.length < MOST_REMEMBERED) tokenizer.words.set(word, merged);
      }
      for (const symbol of merged) symbols.push(symbol);
    }
    return symbols;
  }

  const idOf = (tokenizer, symbol) => (tokenizer.ids ? tokenizer.ids[symbol] : symbol);

  /** The bytes of a symbol, as an array. */
  function bytesOf(tokenizer, symbol) {
    if (symbol < NUM_BYTES) return [symbol];
    const { spelled, lefts, rights } = tokenizer;
    const merged = symbol - NUM_BYTES;
    spelled[merged] ??= bytesOf(tokenizer, lefts[merged]).concat(bytesOf(tokenizer, rights[merged]));
    return spelled[merged];
  }

  return { NUM_BYTES, readClasses, open, encode, idOf, bytesOf };
})();
