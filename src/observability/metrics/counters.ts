import type { AgentCounts, Metrics, Totals, WorkflowCounts } from "../../core/metrics.ts";
import { Histogram, requestBounds, storeBounds } from "./histogram.ts";

/** The numbers of one route. */
export interface RouteCounts {
  /** The responses by status. */
  readonly statuses: Map<number, number>;
  readonly durations: Histogram;
}

/** The ids that may be labels. */
export interface Labels {
  readonly workflows: Iterable<string>;
  readonly agents: Iterable<string>;
}

/** The label of every unknown id and path. A client cannot add a label. */
const other = "other";

/**
 * The numbers of one server, by label.
 *
 * M1. A label is a route pattern, workflow id or agent id from a config that this server has served. So the number of
 *     series depends on the config, and not on requests. Statuses are from 100 to 599.
 * M2. A number never becomes smaller, except `sockets`.
 */
export class Counters implements Metrics {
  readonly #otherWorkflow = createWorkflowCounts();
  readonly #otherAgent = createAgentCounts();
  /** The numbers of all requests without a known route. */
  readonly otherRoute: RouteCounts = createRouteCounts();
  readonly workflows: Map<string, WorkflowCounts> = new Map([[other, this.#otherWorkflow]]);
  readonly agents: Map<string, AgentCounts> = new Map([[other, this.#otherAgent]]);
  readonly routes: Map<string, RouteCounts> = new Map([[other, this.otherRoute]]);
  readonly storeWrites: Histogram = new Histogram(storeBounds);
  readonly totals: Totals = { sockets: 0, droppedLogs: 0, exportedSpans: 0, droppedSpans: 0 };

  /** Adds the labels of a config version. Labels of earlier versions stay until the server is closed. */
  register({ workflows, agents }: Labels): void {
    for (const id of workflows) ensure(this.workflows, id, createWorkflowCounts);
    for (const id of agents) ensure(this.agents, id, createAgentCounts);
  }

  workflow(id: string): WorkflowCounts {
    return this.workflows.get(id) ?? this.#otherWorkflow;
  }
  agent(id: string): AgentCounts {
    return this.agents.get(id) ?? this.#otherAgent;
  }
  /** Returns the numbers of a known route. */
  route(label: string): RouteCounts {
    return ensure(this.routes, label, createRouteCounts);
  }
}

export function countResponse({ statuses, durations }: RouteCounts, status: number, seconds: number): void {
  const known = status >= 100 && status <= 599 ? status : 500; // Node responds to any other one with a 500
  statuses.set(known, (statuses.get(known) ?? 0) + 1);
  durations.observe(seconds);
}

function ensure<T>(map: Map<string, T>, label: string, create: () => T): T {
  const known = map.get(label) ?? create();
  map.set(label, known);
  return known;
}

function createWorkflowCounts(): WorkflowCounts {
  return {
    started: 0,
    transitions: { running: 0, suspended: 0, completed: 0, error: 0, cancelled: 0 },
    attempts: { success: 0, error: 0, suspended: 0, aborted: 0 },
  };
}
function createAgentCounts(): AgentCounts {
  return { calls: { success: 0, error: 0, aborted: 0 }, inputTokens: 0, outputTokens: 0, toolErrors: 0 };
}
function createRouteCounts(): RouteCounts {
  return { statuses: new Map(), durations: new Histogram(requestBounds) };
}
