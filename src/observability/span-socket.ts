import type { Peer } from "crossws";
import * as v from "valibot";
import type { Identity } from "../core/caller.ts";
import { defineSocket, toMessage, type SocketRoute } from "../sockets/socket.ts";
import type { Logs } from "./logs.ts";
import { answerPing, SocketReader } from "./socket-reader.ts";
import { toReader } from "./filter.ts";
import type { Entity, SpanEvent, Traces } from "./tracer.ts";

const EntityQuery = v.object({
  entityType: v.optional(v.picklist(["agent", "workflow"], "expected agent or workflow")),
  entityId: v.optional(v.string()),
});

/** The route `/ws/observability`: spans and log records as they happen. A filter selects whole traces by entity. */
export function spanSocket(
  traces: Traces,
  logs: Logs,
  { socketBufferBytes }: { socketBufferBytes: number },
): SocketRoute {
  return defineSocket({
    path: "/ws/observability",
    summary: "Stream spans and log records as they happen",
    description: "A WebSocket. `entityType` and `entityId` select an agent or a workflow.",
    action: "log.read",
    query: EntityQuery,
    connect(peer, { query, identity }) {
      const { entityType, entityId } = query;
      const isWanted = (root: Entity | undefined): boolean =>
        (entityType === undefined && entityId === undefined) ||
        (root !== undefined &&
          (entityType === undefined || root.type === entityType) &&
          (entityId === undefined || root.id === entityId));
      const sender = createSender(peer, socketBufferBytes / 2);
      const show = toSpanView(identity);
      const read = toReader({ identity, filter: {} });
      const stop = traces.listen((happened) => {
        for (const { event, root } of happened) {
          if (isWanted(root)) sender.send(() => toMessage("OBSERVABILITY_EVENT", show(event)));
        }
      });
      const records = new SocketReader(peer, logs, {
        matches: ({ ids }) => isWanted(traces.rootOf(ids.traceId)),
        toText: (entry) => `{"type":"OBSERVABILITY_LOG","success":true,"data":${read(entry)}}`,
        maxBytes: socketBufferBytes / 2,
      });
      return {
        message: (text) => void peer.send(answerPing(text)),
        drain() {
          sender.drain();
          records.resume();
        },
        close() {
          stop();
          records.close();
        },
      };
    },
  });
}

/** Sends spans while the reader keeps up. Drops and counts the others: spans are not stored. */
function createSender(peer: Peer, maxBytes: number): { send(toText: () => string): void; drain(): void } {
  let missed = 0;
  const isFull = (): boolean => (peer.websocket.bufferedAmount ?? 0) > maxBytes;
  function drain(): void {
    if (missed === 0 || isFull()) return;
    peer.send(toMessage("DROPPED", { count: missed }));
    missed = 0;
  }
  return {
    drain,
    send(toText) {
      drain();
      if (missed > 0 || isFull()) missed++;
      else peer.send(toText());
    },
  };
}

/** Hides details from a reader without access to executions and users: only the entity and the token usage remain. */
function toSpanView({ checked, ownership, caller }: Identity): (event: SpanEvent) => SpanEvent {
  if (!checked || (caller && !ownership)) return (event) => event;
  return (event) => {
    const { attributes, status } = event.span;
    if (ownership && caller?.userId !== undefined && attributes["user.id"] === caller.userId) return event;
    const shown = Object.entries(attributes).filter(([name]) => /^(entity|gen_ai\.usage)\./.test(name));
    return { ...event, span: { ...event.span, attributes: Object.fromEntries(shown), status: { code: status.code } } };
  };
}
