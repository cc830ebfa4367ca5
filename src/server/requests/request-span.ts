import { isShown } from "../../core/error.ts";
import type { LogIds } from "../../core/scope.ts";
import { fromTraceparent, runInSpan, type Attributes, type Tracer } from "../../core/trace.ts";
import type { Answer } from "../../http/envelope.ts";

export interface RequestSpanOptions {
  readonly request: Request;
  readonly ids: LogIds;
  /** The pattern of the built-in route that matched. The pattern of a custom route is known only after it has run. */
  readonly route?: string | undefined;
  readonly params?: Readonly<Record<string, string>> | undefined;
}

/** Answers a request in a new scope, and in a span if spans have a consumer. Continues the trace of a `traceparent`. */
export function answerInScope<A extends Answer>(
  tracer: Tracer,
  { request, ids, route, params }: RequestSpanOptions,
  answer: () => Promise<A>,
): Promise<A> {
  const { method } = request;
  const incoming = fromTraceparent(request.headers.get("traceparent"));
  const span = tracer.start(() => ({
    name: route ? `${method} ${route}` : method,
    kind: "server",
    parent: incoming,
    attributes: {
      "http.request.method": method,
      "http.route": route,
      "agentserve.request.id": ids.requestId,
      "user.id": ids.userId,
      ...toEntity(route, params),
    },
  }));
  const answered = runInSpan(span, answer, { ...ids, ...incoming });
  if (!span) return answered;
  return answered.then(
    (value) => {
      span.set({ "http.response.status_code": value.status });
      span.end(value.status >= 500 ? new Error(`Responded with status ${value.status}`) : undefined);
      return value;
    },
    (error: unknown) => {
      const status = isShown(error) ? error.status : 500;
      span.set({ "http.response.status_code": status });
      span.end(status >= 500 ? error : undefined);
      throw error;
    },
  );
}

/** Returns the agent or workflow of a route, so that a trace names its entity from the first span on. */
function toEntity(route = "", { id }: Readonly<Record<string, string>> = {}): Attributes {
  const [, type] = /^\/(agent|workflow)s\/:id/.exec(route) ?? [];
  return type && id !== undefined ? { "entity.type": type, "entity.id": id } : {};
}
