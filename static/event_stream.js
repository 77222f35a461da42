// One run's events on their way from the server, in order and without a gap. A message is {run, first, events}: events
// number `first` onwards of that run. Gradio's updates, a few seconds apart, only say how far the run has come: each has
// Gradio look at every component of the page. The events themselves are fetched from here, a few times a second while some
// come, and more seldom where they take long to show.

import { newTicket } from "./ticket.js";

const SAME_MACHINE = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
// Between two questions. On the model's own machine, what a page draws is taken from the decoding.
export const PAUSE_MS = SAME_MACHINE ? 500 : 250;
const QUIET_MS = 2000; // where nothing comes
const SHARE = 20; // showing takes at most one part in so many of the time

export class EventStream {
  // `server.events_from([run, first])` gives the message with what was missed; `deal(events, run)` gets what is new.
  constructor(server, deal) {
    this.server = server;
    this.deal = deal;
    this.ticket = null;
    this.received = 0;
    this.live = false; // whether more is to come
    addEventListener("pagehide", () => this.live && this.#leave());
  }

  // A new run; the browser numbers it, so that it can stop one that still waits its turn.
  begin() {
    this.#listenTo(newTicket());
    this.live = true;
    return this.ticket;
  }

  // The page goes, and nobody is left to watch. Gradio would notice it with its next update.
  #leave() {
    fetch(new URL(`runs/of/${this.ticket}/stop`, import.meta.url), { method: "POST", keepalive: true }).catch(() => {});
  }

  #listenTo(run) {
    this.ticket = run;
    this.received = 0;
    this.fetching = null;
    this.pause = PAUSE_MS;
    clearTimeout(this.next);
  }

  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (this.ticket === null) this.#listenTo(message.run);
    if (message.run !== this.ticket) return;
    if (message.first > this.received) return void this.#fetch().catch(() => {}); // asked again at the end
    const fresh = message.events.slice(this.received - message.first);
    this.received += fresh.length;
    if (fresh.length) this.deal(fresh, message.run);
  }

  // One question at a time; whoever asks meanwhile gets the same answer.
  #fetch() {
    const run = this.ticket;
    this.fetching ??= this.server.events_from([run, this.received]).then((text) => {
      if (run !== this.ticket) return;
      this.fetching = null;
      if (text.error) throw new Error(text.error);
      this.#show(text);
    }, (error) => {
      if (run === this.ticket) this.fetching = null;
      throw error;
    });
    return this.fetching;
  }

  #show(text) {
    const before = this.received, began = performance.now();
    this.receive(text);
    clearTimeout(this.next);
    if (!this.live) return;
    this.pause = this.received > before ? Math.max(PAUSE_MS, SHARE * (performance.now() - began))
      : Math.min(QUIET_MS, 2 * this.pause);
    this.next = setTimeout(() => this.#fetch().catch(() => {}), this.pause);
  }

  // The stream is over, for whatever reason: fetches what is missing; throws where the server does not answer.
  async ended() {
    const run = this.ticket;
    await this.fetching?.catch(() => {});
    if (run === this.ticket) this.live = false;
    await this.#fetch();
    clearTimeout(this.next);
  }
}
