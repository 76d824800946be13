// The text of SPEC.md 4.7 in another language, without the profile JOBS, and a runner that holds it to the vectors.
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const TOKEN = new RegExp(
  [
    "(?<text>[^\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]+)",
    "(?<move>[\\x08\\r\\n])",
    "(?:\\x1b\\[|\\x9b)(?<count>[0-9]{0,9})[0-?]*[ -/]*(?<final>[@-~])?",
    "(?:\\x1b[\\]PX^_]|[\\x90\\x98\\x9d-\\x9f])[^\\x07\\x1b\\x80-\\x9f\\n]*(?:\\x07|\\x1b\\\\|\\x9c)",
    "\\x1b[ -/]*[0-~]?",
  ].join("|"),
  "g",
);
const WIDE = new RegExp(
  [
    "[\\u1100-\\u115f\\u231a\\u231b\\u2329\\u232a\\u23e9-\\u23ec\\u23f0\\u23f3\\u25fd\\u25fe\\u2614\\u2615\\u2648-\\u2653",
    "\\u267f\\u2693\\u26a1\\u26aa\\u26ab\\u26bd\\u26be\\u26c4\\u26c5\\u26d4\\u26ea\\u26f2\\u26f3\\u26f5\\u26fa\\u26fd",
    "\\u2705\\u270a\\u270b\\u2728\\u274c\\u274e\\u2753-\\u2755\\u2757\\u2795-\\u2797\\u27b0\\u27bf\\u2b1b\\u2b1c\\u2b50",
    "\\u2b55\\u2e80-\\ua4cf\\ua960-\\ua97f\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe10-\\ufe19\\ufe30-\\ufe6f\\uff01-\\uff60",
    "\\uffe0-\\uffe6\\u{17000}-\\u{18d08}\\u{1b000}-\\u{1b2fb}\\u{1f300}-\\u{1f64f}\\u{1f680}-\\u{1f6ff}",
    "\\u{1f7e0}-\\u{1f7eb}\\u{1f90c}-\\u{1f9ff}\\u{1fa70}-\\u{1faff}\\u{20000}-\\u{3ffff}]",
  ].join(""),
  "u",
);

const columns = (text) => [...text].length + [...text].filter((letter) => WIDE.test(letter)).length;

function unfolded(line) {  // a line that `\r` has overwritten, with the texts of which remains would be seen
  const tokens = [...line.matchAll(TOKEN)].map((found) => found.groups), texts = [""];
  const moves = tokens.some((one) => one.move === "\b" || (one.final && "ABCDEFGJK".includes(one.final)));
  const count = tokens.filter((one) => one.move === "\r").length;
  if (moves || count < 1 || count > 8) return line;
  for (const one of tokens) one.move ? texts.push("") : (texts[texts.length - 1] += one.text ?? "");
  const shown = texts.filter((text) => text);
  const remain = shown.filter((text, n) => n < shown.length - 1 && columns(text.replace(/\p{White_Space}+$/u, "")) > columns(shown[n + 1]));
  return [...remain.slice(-3), ...shown.slice(-1)].join("\n");
}

function rendered(text) {
  const rows = [[]];
  let row = 0, at = 0;
  const lines = text.replaceAll("\0", "\ufffd").replaceAll("\r\n", "\n").split("\n").map(unfolded).join("\n");
  for (const { groups } of lines.matchAll(TOKEN)) {
    const number = Number(groups.count || 0), steps = number || 1, final = groups.final ?? "";
    for (const cell of groups.text ?? "") rows[row][at++] = cell;
    if (groups.move === "\r") at = 0;
    if (groups.move === "\b") at = Math.max(0, at - 1);
    if (groups.move === "\n") [row, at] = [row + 1, 0];
    if (row === rows.length) rows.push([]);
    if (final && "AF".includes(final)) row = Math.max(0, row - steps);
    if (final && "BE".includes(final)) row = Math.min(rows.length - 1, row + steps);
    if (final && "EF".includes(final)) at = 0;
    if (final === "C") at += steps;
    if (final === "D") at -= steps;
    if (final === "G") at = steps - 1;
    if (final === "K" && number === 2) at = 0;
    if ((final === "K" && number % 2 === 0 && number < 3) || (final === "J" && !number)) rows[row].length = Math.min(at, rows[row].length);
    if (final === "J" && !number) rows.length = row + 1;
    at = Math.max(0, Math.min(at, rows[row].length));
  }
  return rows.map((cells) => cells.join("")).join("\n");
}

const decode = (data) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(data);
const printable = (text, instead) => text.replace(/[\p{C}\p{Z}]/gu, (one) => (one === " " ? one : instead));
const plain = (text) => text.replaceAll("\0", "\ufffd");
const sanitised = (text) =>
  text
    .replace(/\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)/g, "")
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f]/g, "")
    .replaceAll("\r\n", "\n");

function short(text) {
  const letters = [...printable(text, " ")];
  return letters.length > 80 ? letters.slice(0, 79).join("") + "…" : letters.join("");
}

function rounded(number, decimals) {  // a half goes to the even digit
  const exact = number.toFixed(40), kept = exact.slice(0, exact.indexOf(".") + 1 + decimals);
  const isHalf = /^50*$/.test(exact.slice(kept.length)), isEven = Number(kept.at(-1)) % 2 === 0;
  return isHalf && isEven ? kept : number.toFixed(decimals);
}

function size(count) {
  const [name, unit] = [["GB", 2 ** 30], ["MB", 2 ** 20], ["KB", 2 ** 10], ["B", 1]].find(([, unit]) => count >= unit || unit === 1);
  return (count % unit ? rounded(count / unit, 1) : count / unit) + name;
}

function seconds(number) {
  return (number < 999999 ? Number(Number(rounded(number, 3)).toPrecision(6)) : Math.trunc(number)) + "s";
}

function firstBytes(text, most) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Buffer.from(text).subarray(0, most), { stream: true });
}

function lastBytes(text, most) {
  let data = Buffer.from(text);
  data = data.subarray(Math.max(0, data.length - most));
  while (data.length && (data[0] & 0xc0) === 0x80) data = data.subarray(1);
  return decode(data);
}

function keepEnds(data, { max_output_bytes: most = 131072, snip_size: snip = 4096 }) {
  const half = Math.floor(most / 2);
  let head = rendered(decode(data)), tail = head, got = data.length;
  if (got > most) {
    head = rendered(new TextDecoder("utf-8", { ignoreBOM: true }).decode(data.subarray(0, half), { stream: true }));
    let last = data.subarray(data.length - (most - half)), cut = 0;
    while (cut < 3 && (last[0] & 0xc0) === 0x80) [last, cut] = [last.subarray(1), cut + 1];
    tail = rendered(decode(last));
  } else {
    got = Math.max(got, Buffer.byteLength(head));
    if (got <= most) return { out: head, cut: false, got };
  }
  return { out: firstBytes(head, snip) + "\n\n[snip]\n\n" + lastBytes(tail, snip), cut: true, got };
}

function keepHead(data, head, mark) {
  const text = plain(decode(data)), kept = head(text);
  return { out: kept + (kept === text ? "" : mark), cut: kept !== text };
}

const CUTS = {
  modes: keepEnds,
  streams: (data, { max_output_chars: most = 30000 }) => keepHead(data, (text) => [...text].slice(0, most).join(""), "\n[truncated]"),
  guarded: (data, { max_output_bytes: most = 262144 }) => keepHead(data, (text) => firstBytes(text, most), "\n... (output truncated)"),
};

// The runner: these lines and the table of what the port answers are all that the vectors need.
const unpacked = (value) => (Array.isArray(value) ? value.map((part) => (Array.isArray(part) ? part[0].repeat(part[1]) : part)).join("") : value);
const data = (value) => Buffer.from(unpacked(value), "latin1");
const TEXTS = { rendered, sanitised, plain, short, size, seconds, decode };
TEXTS.quoted = (text) => JSON.stringify(short(text)).replaceAll("]", "\\u005d");
TEXTS.path = (text) => printable(text, "\ufffd");
const ANSWERS = {
  texts: (one) => ({ out: TEXTS[one.do](one.do === "decode" ? data(one.in) : unpacked(one.in)) }),
  cuts: (one) => CUTS[one.profile]?.(data(one.in), one.limits ?? {}),
};
for (const [kind, answer] of Object.entries(ANSWERS)) {
  const cases = JSON.parse(readFileSync(new URL(kind + ".json", import.meta.url)));
  const asked = cases.map((one) => [one, answer(one)]).filter(([, got]) => got);
  const wrong = asked.filter(([one, got]) => !isDeepStrictEqual(got, { ...one.expect, out: unpacked(one.expect.out) }));
  for (const [one, got] of wrong) console.log(JSON.stringify(one), "got", JSON.stringify(got));
  console.log(`${kind}: ${asked.length - wrong.length} of ${asked.length} right, ${cases.length - asked.length} not claimed`);
  if (wrong.length) process.exitCode = 1;
}
