// The runs that this page has at hand: recorded ones that ship with it, the visitor's own, imported ones, and those
// that came by a link. Entries are {log, name, origin}; library.js adds `key` (what it is called in addresses) and
// `link` (the id under which the server keeps it).

class Shelf extends EventTarget {
  #entries = new Map();

  // `origin` is recorded, own, imported or linked. Adding a run that is there already changes nothing.
  add(log, name, origin, more = {}) {
    if (this.#entries.has(log.id)) return this.get(log.id);
    this.#entries.set(log.id, { log, name, origin, ...more });
    this.changed();
    return this.get(log.id);
  }

  get(id) {
    return this.#entries.get(id) ?? null;
  }

  of(log) {
    return log ? this.get(log.id) : null;
  }

  list() {
    return [...this.#entries.values()];
  }

  rename(id, name) {
    const entry = this.get(id);
    if (entry) entry.name = name;
    this.changed();
  }

  remove(id) {
    this.#entries.delete(id);
    this.changed();
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}

export const shelf = new Shelf();
