import type { EngineLoad } from "../../engine/contract/engine.ts";
import type { Counters } from "./counters.ts";
import type { LoopDelay } from "./event-loop.ts";
import { Exposition, type Samples } from "./exposition.ts";

/** The numbers that are read for each response. */
export interface Gauges {
  readonly load: EngineLoad | undefined;
  readonly streams: number;
  readonly loopDelay: LoopDelay | undefined;
}

/** Writes all numbers of a server, except unknown ones. */
export function writeMetrics(counters: Counters, gauges: Gauges): string {
  const out = new Exposition();
  writeRequests(out, counters);
  writeExecutions(out, counters, gauges.load);
  writeAgents(out, counters);
  writeServer(out, counters, gauges);
  writeProcess(out);
  return out.toString();
}

function writeRequests(out: Exposition, { routes }: Counters): void {
  const requests = out.metric("agentserve_requests_total", "counter", "Requests that were answered.");
  sampleByStatus(requests, "route", routes, ({ statuses }) => statuses);
  const name = "agentserve_request_duration_seconds";
  const durations = out.metric(name, "histogram", "Time from the start of a request to the start of its response.");
  for (const [route, counts] of routes)
    if (counts.statuses.size > 0) durations.histogram(counts.durations, [["route", route]]);
}

function writeExecutions(out: Exposition, { workflows, storeWrites }: Counters, load: EngineLoad | undefined): void {
  const started = out.metric("agentserve_executions_started_total", "counter", "Executions that were started.");
  for (const [workflow, counts] of workflows) started.sample(counts.started, [["workflow", workflow]]);
  const led = "Transitions of executions by the status that they led to. A start and a resume lead to running.";
  const transitions = out.metric("agentserve_executions_total", "counter", led);
  sampleByStatus(transitions, "workflow", workflows, (counts) => Object.entries(counts.transitions));
  const attempts = out.metric("agentserve_step_attempts_total", "counter", "Attempts of steps by outcome.");
  sampleByStatus(attempts, "workflow", workflows, (counts) => Object.entries(counts.attempts));
  if (load) writeLoad(out, load);
  if (storeWrites.counts.some((count) => count > 0)) {
    const name = "agentserve_store_write_duration_seconds";
    out.metric(name, "histogram", "Time of a commit to the store.").histogram(storeWrites);
  }
}

function writeLoad(out: Exposition, { running, queued, suspended, drives }: EngineLoad): void {
  out.metric("agentserve_executions_running", "gauge", "Executions that have a slot.").sample(running);
  const waiting = "Executions that wait for a slot or for the concurrency of their workflow.";
  out.metric("agentserve_executions_queued", "gauge", waiting).sample(queued);
  if (suspended) {
    const counts = out.metric("agentserve_executions_suspended", "gauge", "Suspended executions, up to 100000.");
    for (const [workflow, count] of suspended) counts.sample(count, [["workflow", workflow]]);
  }
  if (!drives) return;
  const retried = "Attempts of drives that repeat an interrupted one.";
  out.metric("agentserve_drive_retries_total", "counter", retried).sample(drives.retries);
  const replaced = "Drives that another one replaces, by cause.";
  const rescues = out.metric("agentserve_drive_rescues_total", "counter", replaced);
  for (const [cause, count] of Object.entries(drives.rescues)) rescues.sample(count, [["cause", cause]]);
}

function writeAgents(out: Exposition, { agents }: Counters): void {
  const calls = out.metric("agentserve_model_calls_total", "counter", "Requests to models by outcome.");
  sampleByStatus(calls, "agent", agents, (counts) => Object.entries(counts.calls));
  const numbers = [
    ["agentserve_model_input_tokens_total", "inputTokens", "Tokens that models have read."],
    ["agentserve_model_output_tokens_total", "outputTokens", "Tokens that models have written."],
    ["agentserve_tool_errors_total", "toolErrors", "Tool calls that failed."],
  ] as const;
  for (const [name, key, help] of numbers) {
    const samples = out.metric(name, "counter", help);
    for (const [agent, counts] of agents) samples.sample(counts[key], [["agent", agent]]);
  }
}

/** Writes one sample per label and status. */
function sampleByStatus<T>(
  samples: Samples,
  label: string,
  counts: ReadonlyMap<string, T>,
  toStatuses: (counts: T) => Iterable<readonly [status: string | number, count: number]>,
): void {
  for (const [id, own] of counts)
    for (const [status, count] of toStatuses(own)) {
      const labels = [[label, id] as const, ["status", String(status)] as const];
      samples.sample(count, labels);
    }
}

function writeServer(out: Exposition, { totals }: Counters, { streams, loopDelay }: Gauges): void {
  out.metric("agentserve_sockets_open", "gauge", "Open WebSockets.").sample(totals.sockets);
  out.metric("agentserve_streams_open", "gauge", "Open event streams.").sample(streams);
  const logs = "Log records that a reader did not get, or that could not be written.";
  out.metric("agentserve_log_records_dropped_total", "counter", logs).sample(totals.droppedLogs);
  out.metric("agentserve_spans_exported_total", "counter", "Spans that were exported.").sample(totals.exportedSpans);
  const spans = "Spans that could not be exported.";
  out.metric("agentserve_spans_dropped_total", "counter", spans).sample(totals.droppedSpans);
  for (const [name, seconds] of Object.entries(loopDelay ?? {})) {
    const help = `Delay of the event loop since the last reading, ${name}.`;
    out.metric(`agentserve_event_loop_delay_${name}_seconds`, "gauge", help).sample(seconds);
  }
}

/** Writes the numbers of the process under the names that Prometheus has for them. */
function writeProcess(out: Exposition): void {
  const { rss, heapUsed } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  out.metric("process_cpu_seconds_total", "counter", "CPU time.").sample((user + system) / 1e6);
  out.metric("process_resident_memory_bytes", "gauge", "Resident memory.").sample(rss);
  out.metric("process_heap_bytes", "gauge", "Heap in use.").sample(heapUsed);
  out.metric("process_start_time_seconds", "gauge", "Start of the process, in seconds since 1970.").sample(startTime);
}

const startTime = performance.timeOrigin / 1_000;
