// A table that keeps only the rows in view, and moves them while you scroll.

import { html, useEffect, useRef } from "../vendor/preact-htm.module.js";

const ROW = 36;
const SPARE = 6;

// columns: {key, title, width, right, cell(row) -> text or node, sort(row) -> value}
export function Table({ label, columns, rows, order, onOrder, onOpen, keyOf, height, classOf }) {
  const box = useRef(null);
  const heads = useRef(null);
  const body = useRef(null);
  useEffect(() => {
    body.current = new Rows(box.current, heads.current);
    return () => body.current.end();
  }, []);
  useEffect(() => body.current.show({ label, columns, rows, onOpen, keyOf, classOf }));
  const style = {
    "--columns": columns.map((column) => column.width).join(" "),
    "--least": `${columns.reduce((sum, column) => sum + (column.least ?? 80), 0)}px`,
    "--height": height,
  };
  return html`<div class="table" role="table" aria-label=${label} aria-rowcount=${rows.length + 1} style=${style}>
    <div class="heads" role="rowgroup" ref=${heads}><div class="titles" role="row" aria-rowindex="1">
      ${columns.map((column) => html`<div
        key=${column.key}
        role="columnheader"
        class=${column.right ? "right" : ""}
        aria-sort=${order.key === column.key ? (order.down ? "descending" : "ascending") : undefined}
      ><button type="button" onClick=${() => onOrder({ key: column.key, down: order.key === column.key && !order.down })}>
        ${column.title}${order.key === column.key ? (order.down ? " ↓" : " ↑") : ""}</button></div>`)}
    </div></div>
    <div class="rows" role="rowgroup" tabindex="0" aria-label=${`${label}: rows. Arrow keys choose, Enter opens.`} ref=${box}></div>
  </div>`;
}

class Rows {
  constructor(box, heads) {
    this.box = box;
    this.heads = heads;
    this.space = document.createElement("div");
    this.space.setAttribute("role", "presentation");
    this.space.style.minWidth = "var(--least)";
    box.append(this.space);
    this.pool = [];
    this.chosen = -1;
    this.view = null;
    this.onScroll = () => {
      heads.scrollLeft = box.scrollLeft;
      this.place(false);
    };
    this.onKey = (event) => this.key(event);
    this.observer = new ResizeObserver(() => this.place(true));
    box.addEventListener("scroll", this.onScroll, { passive: true });
    box.addEventListener("keydown", this.onKey);
    this.observer.observe(box);
  }

  end() {
    this.observer.disconnect();
    this.box.removeEventListener("scroll", this.onScroll);
    this.box.removeEventListener("keydown", this.onKey);
  }

  show(view) {
    const same = this.view && this.view.columns === view.columns;
    this.view = view;
    if (!same) {
      for (const row of this.pool) row.remove();
      this.pool = [];
    }
    const height = `${view.rows.length * ROW}px`;
    if (this.space.style.height !== height) this.space.style.height = height;
    if (this.chosen >= view.rows.length) this.chosen = view.rows.length - 1;
    this.place(true);
  }

  place(fresh) {
    if (!this.view) return;
    const { rows } = this.view;
    const first = Math.max(Math.floor(this.box.scrollTop / ROW) - SPARE, 0);
    const shown = Math.min(Math.ceil(this.box.clientHeight / ROW) + 2 * SPARE, rows.length);
    while (this.pool.length < shown) this.pool.push(this.made());
    for (let i = 0; i < this.pool.length; i++) {
      const row = this.pool[i];
      // Row i of the pool holds the rows whose index is i modulo the size of the pool.
      const size = this.pool.length;
      const index = first + ((((i - first) % size) + size) % size);
      if (index >= rows.length || i >= size) {
        if (row.style.display !== "none") row.style.display = "none";
        row.at = -1;
        continue;
      }
      if (!fresh && row.at === index) continue;
      this.fill(row, index, rows[index]);
    }
  }

  made() {
    const row = document.createElement("div");
    row.className = "row";
    row.setAttribute("role", "row");
    row.cells = this.view.columns.map((column) => {
      const cell = document.createElement("div");
      cell.setAttribute("role", "cell");
      if (column.right) cell.className = "right";
      row.append(cell);
      return cell;
    });
    row.addEventListener("click", () => this.open(row.at));
    row.at = -1;
    this.space.append(row);
    return row;
  }

  fill(row, index, value) {
    const { columns, classOf, keyOf } = this.view;
    if (row.at !== index) {
      row.style.display = "";
      row.style.transform = `translateY(${index * ROW}px)`;
      row.setAttribute("aria-rowindex", String(index + 2));
      row.at = index;
    }
    const name = `row ${classOf ? classOf(value) : ""}${index === this.chosen ? " chosen" : ""}`;
    if (row.className !== name) row.className = name;
    row.id = `row-${keyOf(value)}`;
    columns.forEach((column, i) => {
      const content = column.cell(value);
      const cell = row.cells[i];
      if (typeof content === "string") {
        if (cell.shown !== content) {
          cell.textContent = content;
          cell.title = content.length > 24 ? content : "";
          cell.shown = content;
        }
      } else {
        cell.shown = null;
        cell.replaceChildren(...content);
      }
    });
  }

  open(index) {
    const row = this.view.rows[index];
    if (row !== undefined && this.view.onOpen) this.view.onOpen(row);
  }

  key(event) {
    const page = Math.max(Math.floor(this.box.clientHeight / ROW) - 1, 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === "Enter" && this.chosen >= 0) return this.open(this.chosen);
    if (step === undefined || !this.view.rows.length) return undefined;
    event.preventDefault();
    this.chosen = Math.min(Math.max(this.chosen + step, 0), this.view.rows.length - 1);
    const top = this.chosen * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + ROW > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + ROW - this.box.clientHeight;
    this.place(true);
    this.box.setAttribute("aria-activedescendant", `row-${this.view.keyOf(this.view.rows[this.chosen])}`);
    return undefined;
  }
}
