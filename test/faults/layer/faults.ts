import { Random } from "../kills/plan.ts";

export const modelFaults = ["model fails", "model stalls", "model breaks off", "model stalls inside"] as const;
export const storeFaults = ["store fails", "store is locked", "store is locked for seconds"] as const;
export const socketFaults = [
  "socket is cut",
  "socket is cut inside",
  "socket stalls",
  "socket stalls and is cut",
] as const;
export const faultKinds: readonly string[] = [...modelFaults, ...storeFaults, ...socketFaults];

/** Makes every tenth operation of each kind fail or stall, by a seed, between its start and its stop. */
export class Faults {
  /** How often each fault was made. */
  readonly made: Map<string, number> = new Map();
  readonly random: Random;
  #isOn = false;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** The fault of this operation: one of the list, or undefined nine times out of ten. */
  next<Kind extends string>(...kinds: readonly Kind[]): Kind | undefined {
    const isHit = this.random.chance(0.1);
    const kind = this.random.pick(...kinds);
    if (!isHit || !this.#isOn) return undefined;
    this.made.set(kind, (this.made.get(kind) ?? 0) + 1);
    return kind;
  }

  start(): void {
    this.#isOn = true;
  }
  stop(): void {
    this.#isOn = false;
  }
}
