// One run's events on their way from the server, in order and without a gap. A message is {run, first, events}: events
// number `first` onwards of that run. Gradio's updates, a few seconds apart, only say how far the run has come: each has
// Gradio look at every component of the page. The events themselves are fetched from here, a few times a second while some
// come, and more seldom where they take long to show.

import { newTicket } from "./ticket.js";

const SAME_MACHINE = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);
// Between two questions. On the model's own machine, what a page draws is taken from the decoding.
export const PAUSE_MS = SAME_MACHINE ? 500 : 250;
const QUIET_MS = 2000; // at most; where nothing comes
const SHARE = SAME_MACHINE ? 30 : 8; // showing, its frame included, takes at most one part in so many of the time

export class EventStream {
  // `deal(events, run)` gets what is new.
  constructor(deal) {
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
    fetch(this.#address("stop"), { method: "POST", keepalive: true }).catch(() => {});
  }

  #address(rest) {
    return new URL(`runs/of/${this.ticket}/${rest}`, import.meta.url);
  }

  #listenTo(run) {
    this.ticket = run;
    this.received = 0;
    this.fetching = null;
    this.pause = PAUSE_MS;
    this.cost = 0;
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
    this.fetching ??= this.#missed().then((text) => {
      if (run !== this.ticket) return;
      this.fetching = null;
      this.#show(text);
    }, (error) => {
      if (run === this.ticket) this.fetching = null;
      throw error;
    });
    return this.fetching;
  }

  async #missed() {
    const answer = await fetch(this.#address(`events/${this.received}`));
    if (!answer.ok) throw new Error(`The server answered with ${answer.status}.`);
    return answer.text();
  }

  #show(text) {
    const before = this.received, began = performance.now();
    this.receive(text);
    requestAnimationFrame(() => setTimeout(() => { this.cost = performance.now() - began; }));
    clearTimeout(this.next);
    if (!this.live) return;
    const wanted = this.received > before ? Math.max(PAUSE_MS, SHARE * this.cost) : 2 * this.pause;
    this.pause = Math.min(QUIET_MS, wanted);
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
