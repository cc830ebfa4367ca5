import { cut } from "../../core/cut.ts";
import { durationRule, fromDuration } from "../../core/duration.ts";

/** The times for which executions are kept. Undefined: for ever. */
export interface Retention {
  readonly endedMs: number | undefined;
  readonly suspendedMs: number | undefined;
}

export interface RestateRetention {
  /** Ended executions, from their end on. @default "7d" */
  executions?: string | false;
  /** Suspended executions, from their suspension on. @default false */
  suspended?: string | false;
}

export function toRetention(retention: string | false | RestateRetention): Retention {
  if (typeof retention !== "object") return { endedMs: toMs("retention", retention), suspendedMs: undefined };
  const { executions = "7d", suspended = false } = retention;
  return { endedMs: toMs("retention.executions", executions), suspendedMs: toMs("retention.suspended", suspended) };
}

function toMs(key: string, time: unknown): number | undefined {
  if (time === false) return undefined;
  const ms = fromDuration(time);
  if (ms) return ms;
  const found = cut(JSON.stringify(time) ?? String(time));
  throw new TypeError(`restate({ ${key} }): expected false or ${durationRule}, found ${found}`);
}
