import { connect as connectHttp2 } from "node:http2";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

const checkMs = 500;
/** The time that a replica has to answer a health check. */
const answerMs = 2_000;

/**
 * A proxy in front of the replicas' Restate ports, as a balancer is. A connection goes to the next replica in turn, or to
 * the preferred one while it accepts connections. With health checks, it ends the connections of a replica that does
 * not answer `GET /health`.
 */
export class PortProxy {
  #ports: readonly number[];
  readonly #server: Server;
  readonly #sockets = new Map<number, Set<Socket>>();
  readonly #sick = new Set<number>();
  readonly #preferred: number | undefined;
  #turn = 0;
  #isClosed = false;

  private constructor(ports: readonly number[], preferred: number | undefined) {
    this.#ports = ports;
    this.#preferred = preferred;
    this.#server = createServer((socket) => this.#connect(socket, this.#candidates()));
  }

  static async start(
    ports: readonly number[],
    { preferred, checks = false }: { preferred?: number; checks?: boolean } = {},
  ): Promise<PortProxy> {
    const proxy = new PortProxy(ports, preferred);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    if (checks) for (const port of ports) void proxy.#check(port);
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`; // it listens on a port
  }

  isHealthy(port: number): boolean {
    return !this.#sick.has(port);
  }

  /** Sends connections to these ports from now on, and ends those to others. */
  use(ports: readonly number[]): void {
    this.#ports = ports;
    for (const [port, sockets] of this.#sockets)
      if (!ports.includes(port)) for (const socket of sockets) socket.destroy();
  }

  /** Takes the result of a health check. A replica that has failed it loses its connections, and gets no other ones. */
  checked(port: number, isHealthy: boolean): void {
    if (isHealthy) this.#sick.delete(port);
    else this.#sick.add(port);
    if (!isHealthy) for (const socket of this.#socketsOf(port)) socket.destroy();
  }

  /** Ends all connections. Restate opens new ones. */
  disconnect(): void {
    for (const sockets of this.#sockets.values()) for (const socket of sockets) socket.destroy();
  }

  close(): void {
    this.#isClosed = true;
    this.#server.close();
    this.disconnect();
  }

  #socketsOf(port: number): Set<Socket> {
    const sockets = this.#sockets.get(port) ?? new Set();
    this.#sockets.set(port, sockets);
    return sockets;
  }

  #candidates(): number[] {
    const turn = this.#turn++;
    const ports = this.#ports.map((_, index) => this.#ports[(turn + index) % this.#ports.length]!);
    const isFirst = (port: number): number => (port === this.#preferred ? 0 : 1);
    return ports.filter((port) => !this.#sick.has(port)).toSorted((a, b) => isFirst(a) - isFirst(b));
  }

  #connect(socket: Socket, [port, ...others]: readonly number[]): void {
    if (port === undefined) return void socket.destroy();
    const upstream = connect(port, "127.0.0.1");
    const sockets = this.#socketsOf(port);
    let isOpen = false;
    upstream.once("connect", () => {
      isOpen = true;
      if (!this.#ports.includes(port)) return void upstream.destroy(); // no longer used
      sockets.add(upstream);
      socket.pipe(upstream).pipe(socket);
    });
    upstream.on("error", () => (isOpen ? socket.destroy() : this.#connect(socket, others)));
    upstream.on("close", () => {
      sockets.delete(upstream);
      if (isOpen) socket.destroy();
    });
    socket.on("error", () => upstream.destroy());
    socket.on("close", () => upstream.destroy());
  }

  async #check(port: number): Promise<void> {
    while (!this.#isClosed) {
      this.checked(port, await answersHealth(port));
      await new Promise((resolve) => setTimeout(resolve, checkMs).unref());
    }
  }
}

/** Asks `GET /health` over HTTP/2 without TLS, as Restate itself connects. */
function answersHealth(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  const timer = setTimeout(() => resolve(false), answerMs);
  session.on("error", () => resolve(false));
  const request = session.request({ ":path": "/health" });
  request.on("error", () => resolve(false));
  request.on("response", (headers) => resolve(headers[":status"] === 200));
  request.resume();
  return promise.finally(() => {
    clearTimeout(timer);
    session.destroy();
  });
}
