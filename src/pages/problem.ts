import { stripVTControlCharacters } from "node:util";
import { toVisible } from "../core/terminal/visible.ts";
import { html, type Html } from "./html.ts";

/** The error of the last reload. */
export interface Problem {
  readonly message: string;
  readonly hint?: string | undefined;
  /** The lines of code around the error. */
  readonly frame?: string | undefined;
  /** The time of the error, as an ISO 8601 timestamp. */
  readonly since: string;
}

export function toPanel({ message, hint, frame, since }: Problem): Html {
  return html`<section class="problem" role="alert" aria-labelledby="problem">
    <h2 id="problem">The last change could not be loaded</h2>
    <pre class="message">${show(message)}</pre>
    ${hint && html`<p class="hint"><b>Hint</b> ${show(hint)}</p>`}
    ${frame && html`<pre class="frame" tabindex="0" role="region" aria-label="Code around the error">${show(frame)}</pre>`}
    <p class="since">
      Since <time datetime="${since}">${show(toReadable(since))}</time>. The last good version is still being served.
      This page reloads every two seconds.
    </p>
  </section>`;
}

const toReadable = (since: string): string => since.replace(/^(\S{10})T(\S{8})(\.\d+)?Z$/, "$1 $2 UTC");

// The text may be formatted for a terminal.
const show = (text: string): string => toVisible(stripVTControlCharacters(text), { allowed: "\n\t", max: 20_000 });
