import { cut } from "../core/cut.ts";
import { durationRule, fromDuration } from "../core/clock.ts";
import { isObject } from "../core/json.ts";

/** The times for which executions and conversations are kept, such as `"7d"`. `false` keeps them for ever. */
export interface RetentionOptions {
  /** Ended executions, from their end on. @default "7d" */
  executions?: string | false;
  /** Suspended executions, from their suspension on, except those that continue by themselves at some time. @default false */
  suspended?: string | false;
  /** Conversations, from their last turn on. @default false */
  conversations?: string | false;
  /** Sent events, for later waits. @default "1d" */
  events?: string;
}

/** The times for which executions and conversations are kept; undefined for ever. */
export interface Retention {
  readonly endedMs: number | undefined;
  readonly suspendedMs: number | undefined;
  readonly conversationsMs: number | undefined;
  readonly eventsMs: number;
}

/** Checks the option `retention` of a backend. */
export function toRetention(backend: string, retention: string | false | RetentionOptions = "7d"): Retention {
  const toMs = (key: string, time: unknown): number | undefined => {
    if (time === false) return undefined;
    const ms = fromDuration(time);
    if (ms) return ms;
    const found = cut(JSON.stringify(time) ?? String(time));
    throw new TypeError(`${backend}({ ${key} }): expected false or ${durationRule}, found ${found}`);
  };
  const given = isObject(retention) ? retention : {};
  const { executions = "7d", suspended = false, conversations = false, events = "1d", ...unknown } = given;
  const [key] = Object.keys(unknown);
  if (key !== undefined) throw new TypeError(`${backend}({ retention }): unknown option ${JSON.stringify(key)}`);
  const eventsMs = toMs("retention.events", events);
  if (eventsMs === undefined)
    throw new TypeError(`${backend}({ retention.events }): expected ${durationRule}, found false`);
  return {
    endedMs: given === retention ? toMs("retention.executions", executions) : toMs("retention", retention),
    suspendedMs: toMs("retention.suspended", suspended),
    conversationsMs: toMs("retention.conversations", conversations),
    eventsMs,
  };
}
