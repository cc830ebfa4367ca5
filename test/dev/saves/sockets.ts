import { openSocket, type TestSocket } from "../../harness/server.ts";
import { within } from "../../harness/waiting.ts";

/** WebSockets of all sorts that stay open over all saves. */
export interface Sockets {
  /** Sends a message on each. Resolves when each has answered. */
  talk(): Promise<void>;
  /** Rejects when one was closed by the server. */
  close(): Promise<void>;
  readonly size: number;
}

interface Talker {
  readonly path: string;
  readonly socket: TestSocket;
  closed: number | undefined;
  seq: number;
}

const paths = [
  ...Array(8).fill("/ws"),
  ...Array(5).fill("/ws/logs"),
  ...Array(3).fill("/ws/observability"),
  ...Array(4).fill("/own"),
];

export async function createSockets(base: string): Promise<Sockets> {
  const talkers: Talker[] = [];
  for (const path of paths) {
    const socket = await openSocket(base.replace("http", "ws") + path);
    const talker: Talker = { path, socket, closed: undefined, seq: 0 };
    void socket.closed.then((code) => (talker.closed = code));
    talkers.push(talker);
    if (path !== "/ws/observability") await socket.next(); // a greeting, or the log so far
  }
  let said = 0;
  function check(): void {
    const lost = talkers.filter(({ closed }) => closed !== undefined).map(({ path, closed }) => `${path} (${closed})`);
    if (lost.length > 0) throw new Error(`sockets were closed: ${lost.join(", ")}`);
  }
  return {
    size: talkers.length,
    async talk() {
      check();
      said++;
      await Promise.all(
        talkers.map((talker) =>
          within(answer(talker, said), () => `an answer on ${talker.path}, closed: ${talker.closed}`),
        ),
      );
    },
    async close() {
      check();
      for (const { socket } of talkers) socket.close();
      await Promise.all(talkers.map(({ socket }) => within(socket.closed, () => "the end of a socket")));
    },
  };
}

async function answer(talker: Talker, said: number): Promise<void> {
  const { path, socket } = talker;
  const isSubscriber = path.startsWith("/ws/");
  socket.send(isSubscriber ? `{"type":"PING"}` : String(said));
  for (;;) {
    const message = await Promise.race([socket.next(), socket.closed]);
    if (typeof message === "number") throw new Error(`${path} was closed with ${message}`);
    if (path === "/ws" && message.data === said) return;
    // A socket of the host's own belongs to the version that it was opened on.
    if (path === "/own" && message.said === String(said) && message.load === 1) return;
    if (isSubscriber && message.type === "PONG") return;
    if (path === "/ws/logs" && message.type === "LOG" && message.data.seq > talker.seq) talker.seq = message.data.seq;
    else if (path !== "/ws/observability") throw new Error(`${path} said ${JSON.stringify(message)}`);
  }
}
