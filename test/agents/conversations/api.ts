import type { Answer, Init } from "../../harness/client.ts";
import type { TestServer } from "../../harness/server.ts";

const query = (parameters: Record<string, string | number | undefined>): string => {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, `${value}`]],
  );
  return given.length === 0 ? "" : `?${new URLSearchParams(given)}`;
};

/** The requests about conversations of the agent `helper`, unless another is named. */
export function toApi(
  server: TestServer,
  { agent = "helper", userId, init }: { agent?: string; userId?: string; init?: Init } = {},
) {
  const path = (id: string): string => `/agents/${agent}/conversations/${encodeURIComponent(id)}`;
  return {
    list: (more: { limit?: number; cursor?: string } = {}): Promise<Answer> =>
      server.get(`/agents/${agent}/conversations${query({ userId, ...more })}`, init),
    read: (id: string, before?: string): Promise<Answer> => server.get(path(id) + query({ userId, before }), init),
    rename: (id: string, title: unknown): Promise<Answer> =>
      server.request(path(id) + query({ userId }), { ...init, method: "PATCH", json: { title } }),
    remove: (id: string): Promise<Answer> =>
      server.request(path(id) + query({ userId }), { ...init, method: "DELETE" }),
    say: (conversationId: string, input: string | object[]): Promise<Answer> =>
      server.post(`/agents/${agent}/text`, { input, options: { conversationId, userId } }, init),
  };
}

/** Reads all conversations, page by page. */
export async function readAll(
  api: Pick<ReturnType<typeof toApi>, "list">,
  limit?: number,
  onPage: () => Promise<unknown> = async () => {},
): Promise<any[]> {
  const items: any[] = [];
  for (let cursor: string | undefined; ;) {
    const { body } = await api.list({ limit, cursor } as never); // an absent one is left out
    items.push(...body.data.items);
    if (body.data.nextCursor === null) return items;
    cursor = body.data.nextCursor;
    await onPage();
  }
}
