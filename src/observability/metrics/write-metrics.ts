import type { EngineLoad } from "../../engine/contract/engine.ts";
import type { Counters } from "./counters.ts";
import type { LoopDelay } from "./event-loop.ts";
import { Exposition } from "./exposition.ts";

/** The numbers that are read when they are asked for. */
export interface Gauges {
  readonly load: EngineLoad | undefined;
  readonly streams: number;
  readonly loopDelay: LoopDelay | undefined;
}

/** Writes all numbers of a server. A number that is not known is left out. */
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
  for (const [route, { statuses }] of routes)
    for (const [status, count] of statuses)
      requests.sample(count, [
        ["route", route],
        ["status", String(status)],
      ]);
  const name = "agentserve_request_duration_seconds";
  const durations = out.metric(name, "histogram", "Time from the start of a request to the start of its response.");
  for (const [route, counts] of routes)
    if (counts.statuses.size > 0) durations.histogram(counts.durations, [["route", route]]);
}

function writeExecutions(out: Exposition, { workflows, storeWrites }: Counters, load: EngineLoad | undefined): void {
  const started = out.metric("agentserve_executions_started_total", "counter", "Executions that were started.");
  for (const [workflow, counts] of workflows) started.sample(counts.started, [["workflow", workflow]]);
  const transitions = out.metric(
    "agentserve_executions_total",
    "counter",
    "Transitions of executions by the status that they led to. A start and a resume lead to running.",
  );
  for (const [workflow, counts] of workflows)
    for (const [status, count] of Object.entries(counts.transitions))
      transitions.sample(count, [
        ["workflow", workflow],
        ["status", status],
      ]);
  const attempts = out.metric("agentserve_step_attempts_total", "counter", "Attempts of steps by outcome.");
  for (const [workflow, counts] of workflows)
    for (const [status, count] of Object.entries(counts.attempts))
      attempts.sample(count, [
        ["workflow", workflow],
        ["status", status],
      ]);
  if (load) {
    out.metric("agentserve_executions_running", "gauge", "Executions that have a slot.").sample(load.running);
    out
      .metric(
        "agentserve_executions_queued",
        "gauge",
        "Executions that wait for a slot or for the concurrency of their workflow.",
      )
      .sample(load.queued);
  }
  if (load?.suspended) {
    const suspended = out.metric("agentserve_executions_suspended", "gauge", "Suspended executions, up to 100000.");
    for (const [workflow, count] of load.suspended) suspended.sample(count, [["workflow", workflow]]);
  }
  if (load?.drives) {
    const { retries, rescues } = load.drives;
    const help = "Attempts of drives that repeat an interrupted one.";
    out.metric("agentserve_drive_retries_total", "counter", help).sample(retries);
    const replaced = out.metric(
      "agentserve_drive_rescues_total",
      "counter",
      "Drives that another one replaces, by cause.",
    );
    for (const [cause, count] of Object.entries(rescues)) replaced.sample(count, [["cause", cause]]);
  }
  if (storeWrites.counts.some((count) => count > 0)) {
    const name = "agentserve_store_write_duration_seconds";
    out.metric(name, "histogram", "Time of a commit to the store.").histogram(storeWrites);
  }
}

function writeAgents(out: Exposition, { agents }: Counters): void {
  const calls = out.metric("agentserve_model_calls_total", "counter", "Requests to models by outcome.");
  for (const [agent, counts] of agents)
    for (const [status, count] of Object.entries(counts.calls))
      calls.sample(count, [
        ["agent", agent],
        ["status", status],
      ]);
  const input = out.metric("agentserve_model_input_tokens_total", "counter", "Tokens that models have read.");
  for (const [agent, { inputTokens }] of agents) input.sample(inputTokens, [["agent", agent]]);
  const output = out.metric("agentserve_model_output_tokens_total", "counter", "Tokens that models have written.");
  for (const [agent, { outputTokens }] of agents) output.sample(outputTokens, [["agent", agent]]);
  const tools = out.metric("agentserve_tool_errors_total", "counter", "Tool calls that failed.");
  for (const [agent, { toolErrors }] of agents) tools.sample(toolErrors, [["agent", agent]]);
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
