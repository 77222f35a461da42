// The tree as a table: the same facts for screen readers, and for anyone who wants to sort them. Rows are made once
// and filled again for each page, so that a big tree costs no more than a page.

import { make, write } from "../dom.js";
import { DASH, plural, probability } from "../glyphs.js";
import { FATES, depthOf, fateOf, isBonus, isRetrieved, nodesOf, parentOf, sourceOf, targetOf, tokenOf } from "../node_facts.js";
import { COMING } from "./canvas_view.js";

const PAGE = 50;
const COLUMNS = [
  { name: "node", of: (round, node) => node },
  { name: "token", of: (round, node, log) => log.label(tokenOf(round, node)), text: true },
  { name: "depth", of: depthOf },
  { name: "parent", of: (round, node) => (node ? parentOf(round, node) : null) },
  { name: "source", of: sourceOf, text: true },
  { name: "draft p", of: (round, node) => (node && !isBonus(round, node) ? round.tree.logprob[node] : null), show: probability },
  { name: "path p", of: (round, node) => (node && !isBonus(round, node) ? round.cumulative[node] : null), show: probability },
  { name: "target p", of: (round, node) => targetOf(round, node).logprob, show: probability },
  { name: "rank", of: (round, node) => targetOf(round, node).rank, title: "rank under the target" },
  { name: "fate", of: (round, node) => FATES[fateOf(round, node)], text: true },
];

export class TableView {
  constructor(host, { onSelect }) {
    this.host = host;
    this.onSelect = onSelect;
    this.round = null;
    this.sort = { column: 0, down: false };
    this.page = 0;
    this.rows = [];
    this.#build();
  }

  show(round, log) {
    this.round = round;
    this.log = log;
    this.selected = null;
    this.page = 0;
    this.scroller.scrollTop = 0;
    this.#order();
    this.#fill();
  }

  // Turns to the node's page and keeps its row in sight.
  select(node) {
    this.selected = node;
    const place = node === null || !this.round ? -1 : this.order.indexOf(node);
    if (place >= 0) this.page = Math.floor(place / PAGE);
    this.#fill();
    const row = place < 0 ? null : this.rows[place - this.page * PAGE];
    if (!row) return;
    const head = this.head.offsetHeight;
    const { offsetTop: top, offsetHeight: tall } = row.line;
    const { scroller } = this;
    if (top - head < scroller.scrollTop || top + tall > scroller.scrollTop + scroller.clientHeight) {
      scroller.scrollTop = Math.max(0, top - scroller.clientHeight / 2);
    }
  }

  refresh() {}

  #build() {
    this.captionLine = make("p", "cy-caption");
    this.pager = make("span", "cy-pager");
    this.before = this.#button("\u2039", "Nodes before", () => this.#turn(-1));
    this.after = this.#button("\u203a", "Nodes after", () => this.#turn(1));
    this.where = make("span");
    this.pager.append(this.before, this.where, this.after);
    const top = make("div", "cy-table-top");
    top.append(this.captionLine, this.pager);
    this.scroller = make("div", "cy-scroller cy-table-scroller");
    const table = make("table", "cy-table");
    table.setAttribute("aria-label", "Nodes of the tree");
    this.head = make("thead");
    const line = make("tr");
    this.heads = COLUMNS.map((column, index) => {
      const cell = make("th", column.text ? "cy-text-cell" : "");
      cell.scope = "col";
      const button = this.#button(column.name, `Sort by ${column.title ?? column.name}`, () => this.#sortBy(index));
      cell.append(button);
      line.append(cell);
      return { cell, button };
    });
    this.head.append(line);
    this.body = make("tbody");
    table.append(this.head, this.body);
    this.scroller.append(table);
    this.host.append(top, this.scroller);
  }

  #button(text, title, onclick) {
    const button = make("button", "", text);
    button.type = "button";
    button.title = title;
    button.setAttribute("aria-label", title);
    button.onclick = onclick;
    return button;
  }

  #sortBy(column) {
    this.sort = { column, down: this.sort.column === column ? !this.sort.down : false };
    this.page = 0;
    this.#order();
    this.#fill();
  }

  #turn(step) {
    this.page += step;
    this.scroller.scrollTop = 0;
    this.#fill();
  }

  // What is not known comes last, whichever way.
  #order() {
    const { round, log } = this;
    if (!round) return;
    const { of, text } = COLUMNS[this.sort.column];
    const sign = this.sort.down ? -1 : 1;
    const values = Array.from({ length: nodesOf(round) }, (_, node) => of(round, node, log));
    const compare = (a, b) => (a === null || b === null ? (a === null) - (b === null) : sign * (text ? a.localeCompare(b) : a - b));
    this.order = values.map((_, node) => node).sort((a, b) => compare(values[a], values[b]) || a - b);
  }

  #fill() {
    const { round, log } = this;
    const shown = round ? this.order.slice(this.page * PAGE, (this.page + 1) * PAGE) : [];
    while (this.rows.length < shown.length) this.rows.push(this.#row());
    this.rows.forEach((row, place) => {
      const node = shown[place];
      row.line.hidden = node === undefined;
      if (node === undefined) return;
      row.node = node;
      row.line.className = "cy-row-" + fateOf(round, node) + (isRetrieved(round, node) ? " cy-from-retrieval" : "");
      row.line.setAttribute("aria-current", String(node === this.selected));
      COLUMNS.forEach(({ of, show }, index) => {
        const value = of(round, node, log);
        write(row.cells[index], value === null ? DASH : show ? show(value) : String(value));
      });
    });
    const count = round ? nodesOf(round) : 0;
    write(this.captionLine, round ? `${plural(count, "node")}, root${round.bonus ? " and bonus" : ""} counted. A row selects its node.` : COMING);
    write(this.where, count > PAGE ? `${this.page * PAGE + 1}\u2013${this.page * PAGE + shown.length} of ${count}` : "");
    this.pager.style.visibility = count > PAGE ? "" : "hidden";
    this.before.disabled = this.page === 0;
    this.after.disabled = (this.page + 1) * PAGE >= count;
    this.heads.forEach(({ cell }, index) => cell.setAttribute("aria-sort",
      index !== this.sort.column ? "none" : this.sort.down ? "descending" : "ascending"));
  }

  #row() {
    const line = make("tr");
    const row = { line, node: 0 };
    row.cells = COLUMNS.map(({ text }, index) => {
      const cell = make(index ? "td" : "th", text ? "cy-text-cell" : "");
      if (!index) cell.scope = "row";
      const inside = index ? cell : make("button");
      if (!index) {
        inside.type = "button";
        inside.title = "Select this node";
        cell.append(inside);
      }
      line.append(cell);
      return inside;
    });
    line.onclick = () => this.onSelect(row.node);
    this.body.append(line);
    return row;
  }
}
