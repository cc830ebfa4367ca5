import { toVisible } from "../core/terminal/visible.ts";
import { toPath, type AgentEntry, type NeedsToken, type StepEntry, type WorkflowEntry } from "./catalog.ts";
import { toCurl } from "./curl.ts";
import { toExample } from "./example.ts";
import { html, type Html } from "./html.ts";
import { executePattern, resumePattern, toResumeSchemas } from "./document/own-operations.ts";

/** The options for the cards of agents and workflows. A card has a description and example commands. */
export interface CardOptions {
  /** The URL of the server, as the client sees it, without a trailing slash. */
  readonly url: string;
  readonly needsToken: NeedsToken;
  /** True if the commands are shown expanded. */
  readonly isOpen: boolean;
}

export function toAgentCard({ id, name, description, model, tools }: AgentEntry, options: CardOptions): Html {
  const { url, needsToken } = options;
  const pattern = "/agents/:id/text";
  const command = toCurl({
    url: url + toPath(pattern, id),
    needsToken: needsToken({ method: "POST", pattern, id }),
    body: { input: "Hello" },
  });
  return html`<article id="agent-${id}">
    <div class="about">
      ${toHeading(name, id)} ${toText(description)}
      <dl>
        <dt>Model</dt>
        <dd><code>${toVisible(model, { max: 120 })}</code></dd>
        ${
          !!tools?.length &&
          html`<dt>Tools</dt>
            <dd>${toList(tools, toTool, "tools")}</dd>`
        }
      </dl>
    </div>
    <div class="calls">${toCommand("Generate text", command, options)}</div>
  </article>`;
}

export function toWorkflowCard(workflow: WorkflowEntry, options: CardOptions): Html {
  const { id, name, purpose, steps, inputSchema } = workflow;
  const { url, needsToken } = options;
  const execute = toCurl({
    url: url + toPath(executePattern, id),
    needsToken: needsToken({ method: "POST", pattern: executePattern, id }),
    body: { input: toExample(inputSchema) },
  });
  const [resumeSchema] = toResumeSchemas(workflow);
  const [before = "", after = ""] = resumePattern.split(":executionId");
  const resume = toCurl({
    url: url + toPath(before, id),
    rest: `"$EXECUTION_ID"${after}`,
    needsToken: needsToken({ method: "POST", pattern: resumePattern, id }),
    body: { resumeData: toExample(resumeSchema ?? {}) },
  });
  const waits = doesWait(workflow);
  return html`<article id="workflow-${id}">
    <div class="about">
      ${toHeading(name, id, waits && html`<span class="badge">human in the loop</span>`)} ${toText(purpose)}
      ${
        steps.length > 0 &&
        html`<dl>
          <dt>Steps</dt>
          <dd>${toList(steps, toStep, "steps")}</dd>
        </dl>`
      }
    </div>
    <div class="calls">${toCommand("Run", execute, options)} ${waits && toCommand("Resume", resume, options)}</div>
  </article>`;
}

function toHeading(name: string, id: string, badge?: Html | false): Html {
  return html`<h3>${toVisible(name, { max: 120 })}</h3>
    <p class="id"><code>${id}</code> ${badge}</p>`;
}

const toText = (text: string): Html | false =>
  text !== "" && html`<p class="text">${toVisible(text, { allowed: "\n\t", max: 1_000 })}</p>`;

function toCommand(title: string, command: string, { isOpen }: CardOptions): Html {
  return html`<details ${isOpen && "open"}>
    <summary>${title}</summary>
    <pre tabindex="0" role="region" aria-label="${title}"><code>${command}</code></pre>
  </details>`;
}

/** The maximum number of items in a list. A longer list is not useful on a card. */
const max = 24;

function toList<T>(all: readonly T[], toItem: (one: T) => Html, name: string): Html {
  const more = all.length - max;
  return html`<ol class="${name}">
    ${all.slice(0, max).map((one) => html`${toItem(one)} `)} ${more > 0 && html`<li class="more">and ${more} more</li>`}
  </ol>`;
}

const toTool = ({ name, description }: NonNullable<AgentEntry["tools"]>[number]): Html =>
  html`<li title="${toVisible(description, { max: 400 })}"><code>${toVisible(name, { max: 80 })}</code></li>`;
const toStep = ({ name, type }: StepEntry): Html => html`<li title="${type}">${toVisible(name, { max: 80 })}</li>`;

function doesWait({ suspendSchema, resumeSchema, steps = [] }: Partial<WorkflowEntry> | StepEntry): boolean {
  return Boolean(suspendSchema ?? resumeSchema) || steps.some(doesWait);
}
