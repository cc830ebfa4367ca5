import { setTimeout as sleep } from "node:timers/promises";
import { Host } from "./start-host.ts";
import { patienceMs } from "./patience.ts";

/** A plan of kills. Each life is killed at a random moment after it is at work. */
export interface KillPlan {
  readonly kills: number;
  /** Resolves when a life has made enough progress to be killed. */
  readonly isAtWork: () => Promise<void>;
  /** The time from then to the kill, in milliseconds. */
  readonly moment: () => number;
  /** Called after each kill: the process has ended, and the next one has not begun. */
  readonly onKilled?: (kill: number) => void;
}

/** One host after another with the same folder: each is killed, or ends itself, and the next one continues. */
export class Lives {
  /** The number of starts. */
  life = 0;
  readonly folder: string;
  readonly #module: string;
  readonly #options: object;
  /** The next host has its code loaded before it is needed, so that most of a life is work. */
  #spare: Host;
  #host: Host | undefined;
  #up = Promise.withResolvers<{ url: string; life: number }>();
  readonly #broken = Promise.withResolvers<never>();

  /** The module gets `folder`, `life` and these options. */
  constructor(folder: string, module: string, options: object = {}) {
    this.folder = folder;
    this.#module = module;
    this.#options = options;
    this.#broken.promise.catch(() => {});
    this.#spare = new Host(module);
  }

  /** Everything that is waited for from now on fails with this error. */
  fail(error: unknown): void {
    this.#broken.reject(error);
  }

  /** Returns the promise. If it is rejected, everything that is waited for fails. */
  watch<T>(promise: Promise<T>): Promise<T> {
    promise.catch((error: unknown) => this.fail(error));
    return promise;
  }

  /** Settles as the promise does, unless something fails first or it takes too long. */
  async within<T>(what: string, promise: Promise<T>, ms = patienceMs): Promise<T> {
    const late = Promise.withResolvers<never>();
    const timer = setTimeout(
      () => late.reject(new Error(`${what} took more than ${ms} ms:\n${this.explain()}${this.#host?.stderr ?? ""}`)),
      ms,
    );
    return Promise.race([promise, this.#broken.promise, late.promise]).finally(() => clearTimeout(timer));
  }

  /** The state of the work, for an error message. */
  protected explain(): string {
    return "";
  }

  async until(what: string, holds: () => boolean): Promise<void> {
    const last = performance.now() + patienceMs;
    while (!holds()) {
      if (performance.now() > last) throw new Error(`${what}: not within ${patienceMs} ms:\n${this.explain()}`);
      await this.within("a moment", sleep(5));
    }
  }

  /** Resolves when a count has grown by more than so many. */
  async untilMore(what: string, count: () => number, many: number): Promise<void> {
    const before = count();
    await this.until(what, () => count() > before + many);
  }

  /** Starts the next life, and resolves when it listens or has ended itself. */
  async start(options: object = {}): Promise<void> {
    const host = (this.#host = this.#spare);
    const up = this.#up;
    const life = ++this.life;
    void this.#watchEnd(host, life);
    const started = host
      .start({ folder: this.folder, life, ...this.#options, ...options })
      .then((url) => up.resolve({ url, life }))
      .catch(() => {}); // it has ended
    this.#spare = new Host(this.#module);
    await this.within(`life ${life}: to listen`, started, 4 * patienceMs); // it may have to load its code
  }

  async #watchEnd(host: Host, life: number): Promise<void> {
    const { code, signal } = await host.ended;
    if (host.url !== "") this.#up = Promise.withResolvers(); // else everybody still waits for the next life
    if (signal !== "SIGKILL") this.fail(new Error(`life ${life} ended with ${code ?? signal}:\n${host.stderr}`));
  }

  order(name: string, value?: unknown): Promise<any> {
    return this.#host!.order(name, value);
  }

  /** Kills the process at any point of its work. */
  async kill(): Promise<void> {
    this.#host!.child.kill("SIGKILL");
    await this.hasEnded("to die");
  }

  /** Resolves when the process of this life has ended. */
  async hasEnded(what: string): Promise<void> {
    await this.within(what, this.#host!.ended);
  }

  /** Whether the process of a life has ended. */
  isOver(life: number): boolean {
    return life !== this.life || !this.#host!.isAlive;
  }

  /** Kills as many lives as planned, and starts the next one. */
  async killOften({ kills, isAtWork, moment, onKilled }: KillPlan): Promise<void> {
    for (let kill = 0; kill < kills; kill++) {
      await this.start();
      await isAtWork();
      await this.within("a moment", sleep(moment()));
      await this.kill();
      onKilled?.(kill);
    }
    await this.start();
  }

  /** Sends a request to this life or the next one. Undefined: the process died before it answered. */
  async fetch(path: string, init: RequestInit): Promise<{ response: Response; life: number } | undefined> {
    const { url, life } = await this.within("the next life", this.#up.promise);
    try {
      return { life, response: await this.within(path, fetch(url + path, init)) };
    } catch (error) {
      return this.sawDeath(life, error);
    }
  }

  /** A broken connection is right only if the process has died. */
  async sawDeath(life: number, error: unknown): Promise<undefined> {
    if (life === this.life) await this.hasEnded(`an answer was not whole (${String(error)}): to die`);
  }

  async close(): Promise<void> {
    this.fail(new Error("closed"));
    await Promise.all([this.#host, this.#spare].map((host) => host?.isAlive && host.end()));
  }
}
