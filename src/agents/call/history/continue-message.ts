import type { ModelMessage } from "ai";
import { notFound, ServeError } from "../../../core/error.ts";
import type { ChangedMessage } from "../../../engine/contract/conversations.ts";
import type { Approver } from "../../../engine/stored/pending-calls.ts";
import { decide, maxOfReason, type Decided, type Decision } from "../approvals/decisions.ts";
import { toDrafts, toStored, withModels, type Draft } from "./draft.ts";
import { invalid } from "./files.ts";
import { openCalls, partsOf, type ClientMessage } from "./messages.ts";
import { toEnded, toResumes, toSuperseded } from "../approvals/ended-calls.ts";
import {
  openApprovals,
  openExecutions,
  superseded,
  toAsked,
  toClosing,
  toResponses,
} from "../approvals/pending-calls.ts";
import type { OpenApproval, OpenExecution } from "../approvals/pending-calls.ts";
import type { CallChanges, Fresh, Row, TurnInput, TurnStore } from "./turn-parts.ts";

/**
 * Continues the last stored message: with results of the client's own tools, and with decisions about calls that wait. They
 * come from a message of the client, from the server, or from the beginning of a turn that runs again. The message is not
 * continued before all of its calls have an outcome.
 */
export async function continueMessage(store: TurnStore, rows: readonly Row[], input: TurnInput): Promise<Fresh> {
  const last = input.messages.at(-1);
  const before = sinceUser(rows);
  const open = openApprovals(before);
  const found = await readDraft(store, rows);
  const executions = found ? openExecutions(found.draft) : [];
  const isNotContinued = found?.draft.metadata.executions?.some((call) => !call.ended) === true;
  const ended = await toEnded(store, executions, input, isNotContinued);
  const resumes = last ? toResumes(executions, last) : [];
  const own = last ? toResults(before, last, executions) : [];
  const results = [...own, ...ended.models];
  const { fresh, outcomes, rest } = await toDecided(store, open, input, results.length > 0);
  if (results.length === 0 && outcomes.length === 0 && resumes.length === 0 && !input.results) {
    if (input.decisions) throw notFound("Approval not found");
    throw invalid("input", "the last message must be a user message, or contain results of tools that were called");
  }
  const models = [...results, ...toResponses(outcomes)];
  if (!found) {
    const answers = { ...last, role: "tool" as const, models, parts: undefined };
    return { drafts: toDrafts([answers], store.at, input.turnName), open, outcomes };
  }
  const { draft, count } = found;
  const continued = withModels(draft, models);
  const { calls } = openCalls([...before, ...results]);
  const isWaiting = rest.length + ended.rest.length > 0 || (open.length > 0 && calls.size > open.length);
  const decided = [...fresh, ...ended.decided];
  if (isWaiting) {
    const changed = await toChanged(continued, results.length > 0 ? [...draft.models, ...results] : undefined);
    return { drafts: [], changes: { changed, decided }, waiting: { messageId: draft.id, rest, resumes } };
  }
  const isDecided = open.length + ended.decided.length > 0;
  // A turn that fails leaves the ends of executions with their calls.
  const ends = ended.models.length > 0 ? [...draft.models, ...results] : undefined;
  const changes = isDecided ? { changed: await toChanged(continued, ends), decided } : undefined;
  const known = { outcomes: open.length > 0 ? outcomes : undefined, results: given(ended.models) };
  return { drafts: [continued], replaced: count, until: draft.id, changes, open, ...known };
}

/**
 * Gives an outcome to the calls that wait, because the user continues without them. Their tools never run. Undefined if there
 * are none.
 */
export async function supersede(store: TurnStore, rows: readonly Row[]): Promise<CallChanges | undefined> {
  const before = sinceUser(rows);
  const open = openApprovals(before);
  const { calls } = openCalls(before);
  const found = calls.size > 0 ? await readDraft(store, rows) : undefined;
  const executions = found ? openExecutions(found.draft) : [];
  if (!found || open.length + executions.length === 0) return undefined;
  const known = await store.turn.calls(open.map(({ id }) => id));
  const outcomes = new Map(known.map(({ id, outcome }) => [id, outcome]));
  const waiting = open.filter(({ id }) => !outcomes.get(id));
  // Tools that were approved run when nothing else of the answer waits.
  const hasRun = waiting.length === 0 && calls.size === open.length;
  const approvals = open.length > 0 ? toClosing(open, (id) => outcomes.get(id), hasRun) : [];
  const closing = [...approvals, ...toSuperseded(executions)];
  const closedIds = [...waiting, ...executions.map(({ executionId }) => ({ id: executionId }))];
  const closed = withModels(found.draft, closing);
  return {
    changed: await toChanged(closed, closed.models),
    decided: closedIds.map(({ id }) => ({ id, outcome: { approved: false, reason: superseded, at: store.at } })),
    models: closed.models,
  };
}

/** The model messages after the last one of the user, which closes all calls before it. */
function sinceUser(rows: readonly Row[]): readonly ModelMessage[] {
  const models = rows.flatMap((row) => row.models);
  return models.slice(models.findLastIndex(({ role }) => role === "user") + 1);
}

async function toDecided(
  { turn, at }: TurnStore,
  open: readonly OpenApproval[],
  { messages, decisions, outcomes, decider }: TurnInput,
  hasResults: boolean,
): Promise<Decided> {
  // It runs again: its beginning has been stored. Its answer has not, or the call would not be open.
  if (outcomes && open.length === 0) throw new ServeError(409, "The turn has ended", { retry: false });
  if (outcomes) return { fresh: outcomes, outcomes, rest: [] };
  const last = messages.at(-1);
  const asked = decisions ?? (last ? toDecisions(last, decider?.by) : []);
  const ids = new Set([...open, ...asked].map(({ id }) => id));
  const known = ids.size > 0 ? await turn.calls([...ids]) : [];
  const decided = decide({ open, known, decisions: asked, isRepeated: hasResults, at });
  if (!decisions) {
    const requestedAt = new Map(known.map((call) => [call.id, call.at]));
    for (const call of open) {
      const isDecided = decided.fresh.some(({ id }) => id === call.id);
      if (isDecided) await decider?.admit({ ...toAsked(call), at: requestedAt.get(call.id) ?? at });
    }
  }
  return decided;
}

/**
 * Returns the decisions in a message of the client. If a client sends an approval together with a result, its last turn ran
 * the tool and then failed. That approval is dropped: the server must not decide to run the tool a second time.
 */
function toDecisions({ models }: ClientMessage, by: Approver | undefined): Decision[] {
  const parts = models.flatMap(partsOf);
  const results = new Set(parts.map(({ type, toolCallId }) => (type === "tool-result" ? toolCallId : undefined)));
  const calls = new Map(parts.map(({ type, approvalId, toolCallId }) => [type + approvalId, toolCallId]));
  return models.flatMap((message) => {
    if (message.role !== "tool") return [];
    return message.content.flatMap((part): Decision[] => {
      if (part.type !== "tool-approval-response") return [];
      const { approvalId: id, approved, reason } = part;
      if (reason && reason.length > maxOfReason) {
        throw invalid("input", `the reason of an approval has more than ${maxOfReason} characters`);
      }
      const call = calls.get(`tool-approval-request${id}`);
      return approved && call !== undefined && results.has(call) ? [] : [{ id, approved, reason, by }];
    });
  });
}

const given = <T>(list: readonly T[]): readonly T[] | undefined => (list.length > 0 ? list : undefined);

/**
 * Returns the results of the client's own tools, and drops all others. The server runs the tool of an approved call, and an
 * ended execution is the result of its call.
 */
function toResults(
  before: readonly ModelMessage[],
  last: ClientMessage,
  executions: readonly OpenExecution[],
): ModelMessage[] {
  const { calls, approvals } = openCalls(before);
  const others = new Set([...approvals.values(), ...executions.map(({ toolCallId }) => toolCallId)]);
  const isAnswered = (call: string, tool: string): boolean => calls.get(call) === tool && !others.has(call);
  return last.models.flatMap((message) => {
    if (message.role !== "tool") return [];
    const content = message.content.filter(
      (part) => part.type === "tool-result" && isAnswered(part.toolCallId, part.toolName),
    );
    return content.length > 0 ? [{ ...message, content }] : [];
  });
}

/** Returns the last stored message, and the number of its rows. Undefined for one of an older release that cannot be replaced. */
async function readDraft(
  { readLast }: TurnStore,
  rows: readonly Row[],
): Promise<{ readonly draft: Draft; readonly count: number } | undefined> {
  const message = await readLast();
  const id = rows.at(-1)?.id;
  const own = rows.slice(rows.findIndex((row) => row.id === id));
  // A message of an older release is several rows, and may have no id by which it could be replaced.
  if (id === undefined || message?.id !== id || !own.every((row) => row.id === id)) return undefined;
  const models = own.flatMap((row) => row.models);
  const { parts, metadata = { createdAt: null } } = message;
  return { draft: { id, role: "assistant", parts, models, metadata }, count: own.length };
}

async function toChanged(draft: Draft, models?: readonly ModelMessage[]): Promise<readonly ChangedMessage[]> {
  const { id, ui, models: text, count } = await toStored({ ...draft, models: models ?? [] });
  return [models ? { id, ui, models: text, count } : { id, ui }];
}
