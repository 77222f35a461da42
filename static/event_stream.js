// One run's events on their way from the server, in order and without a gap. A message is {run, first, events}: events
// number `first` onwards of that run. Updates that come too fast may overtake each other on the way to a component; a
// gap is then fetched by number.

import { newTicket } from "./ticket.js";

export class EventStream {
  // `server.events_from([run, first])` gives the message with what was missed; `deal(events, run)` gets what is new.
  constructor(server, deal) {
    this.server = server;
    this.deal = deal;
    this.ticket = null;
    this.received = 0;
  }

  // A new run; the browser numbers it, so that it can stop one that still waits its turn.
  begin() {
    this.#listenTo(newTicket());
    return this.ticket;
  }

  #listenTo(run) {
    this.ticket = run;
    this.received = 0;
    this.fetching = null;
  }

  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (this.ticket === null) this.#listenTo(message.run);
    if (message.run !== this.ticket) return;
    if (message.first > this.received) return void this.#fetchGap().catch(() => {}); // asked again at the end
    const fresh = message.events.slice(this.received - message.first);
    this.received += fresh.length;
    if (fresh.length) this.deal(fresh, message.run);
  }

  // One question at a time; whoever asks meanwhile gets the same answer.
  #fetchGap() {
    const run = this.ticket;
    this.fetching ??= this.server.events_from([run, this.received]).then((text) => {
      if (run !== this.ticket) return;
      this.fetching = null;
      if (text.error) throw new Error(text.error);
      this.receive(text);
    }, (error) => {
      if (run === this.ticket) this.fetching = null;
      throw error;
    });
    return this.fetching;
  }

  // The stream is over, for whatever reason: fetches what is missing; throws where the server does not answer.
  async ended() {
    await this.fetching?.catch(() => {});
    await this.#fetchGap();
  }
}
