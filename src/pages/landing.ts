import { icon } from "../http/page.ts";
import { toAgentCard, toWorkflowCard, type CardOptions } from "./cards.ts";
import type { NeedsToken, VisibleEntries } from "./catalog.ts";
import { html, Html, type Content } from "./html.ts";
import { style } from "./landing-style.ts";
import { toPanel, type Problem } from "./problem.ts";

export interface LandingParts {
  readonly lists: Html;
  readonly version: string;
  readonly problem: Problem | undefined;
  /** The text in front of each link. Links are relative: a proxy may remove a prefix that the server does not know. */
  readonly link: string;
}

/** Returns the landing page around the lists. It has no script. */
export function toLandingPage({ lists, version, problem, link }: LandingParts): string {
  const page = html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        ${problem && html`<meta http-equiv="refresh" content="2" />`}
        <title>${problem ? "Failed to load · agentserve" : "agentserve"}</title>
        <link rel="icon" href="${icon}" />
        ${styleElement}
      </head>
      <body>
        <header>
          <h1>agentserve <small>${version}</small></h1>
          <nav aria-label="API">
            <a class="first" href="${link}ui">Try it out</a>
            <a href="${link}doc">OpenAPI</a>
            <a href="${link}agents">Agents</a>
            <a href="${link}workflows">Workflows</a>
            <a href="${link}api/logs">Logs</a>
          </nav>
        </header>
        <main>${problem && toPanel(problem)} ${lists}</main>
      </body>
    </html> `;
  return page.text;
}

// Not part of the template: every space in the element counts for its hash.
const styleElement = new Html(`<style>${style}</style>`);

/** Returns the lists of agents and workflows, with the commands to call them. */
export function toLists({ agents, workflows }: VisibleEntries, url: string, needsToken: NeedsToken): Html {
  if (agents?.length === 0 && workflows?.length === 0) return firstSteps;
  const count = (agents?.length ?? 0) + (workflows?.length ?? 0);
  const options: CardOptions = { url, needsToken, isOpen: count <= 20 };
  const agentCards = agents?.map((agent) => toAgentCard(agent, options));
  const workflowCards = workflows?.map((workflow) => toWorkflowCard(workflow, options));
  return html`${toSection("Agents", agentCards, noAgents)} ${toSection("Workflows", workflowCards, noWorkflows)}`;
}

function toSection(title: string, cards: readonly Html[] | undefined, none: Html): Html {
  const content: Content = cards === undefined ? closed : cards.length === 0 ? none : cards;
  const count = cards && cards.length > 0 && html`<small>${cards.length}</small>`;
  return html`<section aria-labelledby="${title}">
    <h2 id="${title}">${title} ${count}</h2>
    ${content}
  </section>`;
}

const closed = html`<p class="none">Listed only for requests with a valid token.</p>`;
const noAgents = html`<p class="none">
  None yet: create one with <code>defineAgent()</code> and export it from a file in <code>agents/</code>.
</p>`;
const noWorkflows = html`<p class="none">
  None yet: create one with <code>defineWorkflow()</code> and export it from a file in <code>workflows/</code>.
</p>`;

const firstSteps = html`<section class="first-steps" aria-labelledby="first">
  <h2 id="first">No agents or workflows yet</h2>
  <p>Create an agent in <code>agents/assistant.ts</code>. This one needs no API key: it repeats its input.</p>
  <pre tabindex="0" role="region" aria-label="An agent"><code>import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";

export const assistant = defineAgent({
  id: "assistant",
  instructions: "Answer in one sentence.",
  model: echoModel(),
});</code></pre>
  <p>Or create a workflow in <code>workflows/hello.ts</code>:</p>
  <pre tabindex="0" role="region" aria-label="A workflow"><code>import { defineWorkflow } from "agentserve";
import * as v from "valibot";

export const hello = defineWorkflow({
  id: "hello",
  input: v.object({ name: v.string() }),
}).andThen({
  id: "greet",
  execute: ({ data }) =&gt; ({ text: "Hello " + data.name }),
});</code></pre>
</section>`;
