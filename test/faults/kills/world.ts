import { setTimeout as sleep } from "node:timers/promises";
import { checkEvents, checkRetries, checkRuns } from "./checks.ts";
import { Client } from "./client.ts";
import type { ChildName } from "./child.ts";
import { checkFamily, toChildPlan } from "./family.ts";
import { toSnapshot } from "./fork.ts";
import { workflowIds } from "./oracle.ts";
import type { Plan, Random } from "./plan.ts";
import type { Mark } from "./log.ts";
import type { ServedLives, Serving } from "./process.ts";
import type { Witness } from "./witness.ts";

/** What a run came to. */
export interface Figures {
  kills: number;
  /** Kills that hit at least one execution in flight. */
  hits: number;
  /** Executions in flight at a kill, all kills together; and those whose code was at work. */
  inFlight: number;
  atWork: number;
  executions: number;
  /** Failures that were retried, and executions that were forked from others. */
  retries: number;
  forks: number;
  /** Children, and those that were cancelled with their parents. */
  children: number;
  cancelledChildren: number;
  stepsAgain: number;
  eventsRead: number;
  eventsStored: number;
}
export const noFigures = (): Figures => ({
  kills: 0,
  hits: 0,
  inFlight: 0,
  atWork: 0,
  executions: 0,
  retries: 0,
  forks: 0,
  children: 0,
  cancelledChildren: 0,
  stepsAgain: 0,
  eventsRead: 0,
  eventsStored: 0,
});

/** One file, the processes that serve it one after the other, and everybody who uses them. */
export class World<Server extends Serving = ServedLives> {
  readonly lives: Server;
  readonly figures: Figures;
  readonly #witnesses = new Map<string, Witness>();
  readonly #clients = new Set<Client>();
  readonly #living = new Set<Client>();
  /** Suspended, and to be left so. */
  readonly #staying = new Set<Client>();
  /** What was asked for and never answered, by its input. */
  readonly #unknown = new Map<number, Plan>();
  #n = 0;

  constructor(lives: Server, figures: Figures) {
    this.lives = lives;
    this.figures = figures;
  }

  get #hearsLate(): boolean {
    return this.lives.hearsLate ?? false;
  }

  /** Executions that have begun and not ended; suspended ones count if they are about to be resumed. */
  get inFlight(): number {
    const witnesses = [...this.#living].flatMap(({ witness }) => witness ?? []);
    return witnesses.filter((one) => !one.final && this.lives.log.of(one.id).length > 0).length;
  }

  /** The next number for an input. */
  take(count = 1): number {
    const first = this.#n + 1;
    this.#n += count;
    return first;
  }

  /** Resolves when the client has nothing more to do. */
  async run(plan: Plan, onBegun?: () => void): Promise<void> {
    const client = this.#create(plan);
    this.#living.add(client);
    try {
      const over = client.live(onBegun);
      await (plan.workflow === "family" ? this.#followFamily(client, over) : over);
    } catch (error) {
      this.lives.fail(error);
      throw error;
    }
    this.#living.delete(client);
    if (!client.witness) this.#unknown.set(plan.n, plan);
    else if (!client.witness.final) this.#staying.add(client);
  }

  /** Resolves when the parent has nothing more to do, and its children have ended. */
  async #followFamily(parent: Client, over: Promise<void>): Promise<void> {
    const following: Promise<void>[] = [over];
    const living = { isOver: false };
    over.catch(() => {}).finally(() => (living.isOver = true));
    for (let isLast = false; !isLast;) {
      isLast = living.isOver;
      for (const child of this.#followChildren(parent)) {
        child.catch((error: unknown) => this.lives.fail(error));
        following.push(child);
      }
      if (!isLast) await this.lives.within("a moment", sleep(10));
    }
    await Promise.all(following);
  }

  /** Follows the children that the parent knows and nobody follows. */
  #followChildren({ witness, plan }: Client): Promise<void>[] {
    const known = witness ? this.lives.log.childrenOf(witness.id) : [];
    return known
      .filter(({ id }) => !this.#witnesses.has(id))
      .map(({ name, id }) => this.#followChild(witness!, plan, { name, id }));
  }

  async #followChild(parent: Witness, plan: Pick<Plan, "reads">, { name, id }: { name: ChildName; id: string }) {
    const client = this.#create(toChildPlan(parent, plan, name, id));
    const witness = client.witness!;
    witness.acknowledged = true; // its parent was told of it, or it is listed
    if (name === "tied") witness.cancelReasons = parent.cancelReasons;
    this.#living.add(client);
    await client.follow("resume");
    this.#living.delete(client);
  }

  #create(plan: Plan): Client {
    const known = (client: Client, witness: Witness): void => {
      if (this.#witnesses.has(witness.id)) witness.fail("is there twice");
      this.#witnesses.set(witness.id, witness);
      this.#clients.add(client);
    };
    return new Client(plan, this.lives, { known, fork: (fork, original) => this.#fork(fork, original) });
  }

  /** Resolves once the fork has begun; `over` is its end. Its original must be as it was. */
  async #fork(plan: Plan, original: Client): Promise<{ over: Promise<void> }> {
    const before = await toSnapshot(original);
    const begun = Promise.withResolvers<void>();
    const isNew = plan.id === undefined; // by another input, by which it can be found
    const following = this.run(isNew ? { ...plan, n: this.take() } : plan, begun.resolve);
    following.catch(() => {}); // everybody hears of it
    await this.lives.within("a fork to begin", begun.promise);
    const after = await toSnapshot(original);
    if (after !== before) original.witness!.fail(`was changed by its fork: ${before} is now ${after}`);
    return { over: following };
  }

  /** Call it when the process is dead, and before the next one lives. */
  count(): void {
    const { figures, inFlight } = this;
    figures.kills++;
    figures.inFlight += inFlight;
    figures.atWork += this.lives.log.atWorkAtTheEndOf(this.lives.life);
    if (inFlight > 0) figures.hits++;
  }

  /** What was committed just before the process ended itself is so for good, though nobody was told. */
  committed({ point, execution, what, at }: Mark): void {
    const witness = this.#witnesses.get(execution);
    if (point === "entry:value:after") witness?.recorded(what.replace(/#\d+$/, ""), `${point} it was killed`, at);
    // Its waits may end by themselves.
    if (point === "move:suspended:after" && witness?.asked.workflow === "post") return;
    if (/:(completed|suspended|error):after$/.test(point) && !point.startsWith("entry:"))
      witness?.hold(`${point} it was killed`, at);
  }

  /** Some of those who wait for nothing are as they were. */
  async sweep(random: Random): Promise<void> {
    const quiet = [...this.#clients].filter((client) => !this.#living.has(client));
    for (let times = 0; times < 20 && quiet.length > 0; times++) await random.pick(...quiet).look();
  }

  /** Everything has ended, or is suspended and meant to be: all of it is right, and what is suspended can be resumed. */
  async finish(): Promise<void> {
    await this.#findUnknown();
    const known = new Set(this.#clients);
    await together([...known], (client) => this.#check(client));
    await together([...this.#staying], async (client) => {
      await client.end();
      await Promise.all(this.#followChildren(client));
      await this.#check(client);
    });
    // Forks and children of those that were suspended.
    await together(
      [...this.#clients].filter((client) => !known.has(client)),
      (client) => this.#check(client),
    );
    this.#checkFamilies();
    for (const id of this.lives.log.executions)
      if (!this.#witnesses.has(id)) throw new Error(`execution ${id} has run steps, and is nobody's`);
    const { complaints, sealed } = this.lives.log;
    if (complaints.length > 0) throw new Error(`complaints: ${complaints.slice(0, 5).join("\n")}`);
    for (const { witness } of this.#clients) sealed.add(witness!.id);
    this.figures.executions += this.#clients.size;
    for (const { plan, witness } of this.#clients) {
      this.figures.retries += witness!.retriesTaken;
      if (plan.origin) this.figures.forks++;
      if (plan.child) this.figures.children++;
      if (plan.child && witness!.final!.cancellation) this.figures.cancelledChildren++;
    }
    this.figures.stepsAgain += [...this.#clients].reduce(
      (sum, { witness }) => sum + checkRuns(witness!, this.#hearsLate),
      0,
    );
    this.figures.eventsRead += [...this.#clients].reduce((sum, { witness }) => sum + witness!.events.length, 0);
    this.#clients.clear();
    this.#staying.clear();
  }

  #checkFamilies(): void {
    const witnesses = [...this.#clients].map(({ witness }) => witness!);
    const children = Map.groupBy(witnesses, ({ asked }) => asked.child?.parent);
    for (const one of witnesses) if (one.asked.workflow === "family") checkFamily(one, children.get(one.id) ?? []);
  }

  async #check(client: Client): Promise<void> {
    const witness = client.witness!;
    const stored = await client.stored();
    checkEvents(witness, stored);
    checkRetries(witness, stored);
    checkRuns(witness, this.#hearsLate);
    this.figures.eventsStored += stored.length;
  }

  /** What began and never got an answer, found by its input: at most one each, and right like all others. */
  async #findUnknown(): Promise<void> {
    const listed = new Set<string>();
    for (const workflow of workflowIds) {
      for (let cursor: string | null = ""; cursor !== null;) {
        const query: string = cursor && `&cursor=${cursor}`;
        const reply = await this.lives.ask(`/workflows/${workflow}/executions?limit=200${query}`);
        const { items, nextCursor } = reply!.body.data;
        for (const { executionId, input } of items) {
          if (listed.has(executionId)) throw new Error(`${executionId} is listed twice`);
          listed.add(executionId);
          if (this.#witnesses.has(executionId)) continue;
          const parent = this.#witnesses.get(input.parent);
          if (parent) {
            await this.#followChild(parent, { reads: false }, { name: input.name, id: executionId });
            continue;
          }
          const plan = this.#unknown.get(input.n);
          if (!plan) throw new Error(`${executionId} is nobody's`);
          this.#unknown.delete(input.n);
          const client = this.#create({ ...plan, id: executionId, act: undefined, fork: undefined, reads: false });
          await client.follow("stay");
          if (!client.witness!.final) this.#staying.add(client);
        }
        // Newest first: from here on all were found the last time.
        const isOld = items.every((one: { executionId: string }) => this.lives.log.sealed.has(one.executionId));
        cursor = isOld ? null : nextCursor;
      }
    }
    for (const { witness } of this.#clients)
      if (witness!.acknowledged && !listed.has(witness!.id)) witness!.fail("was acknowledged, and is not listed");
  }

  close(): Promise<void> {
    return this.lives.close();
  }
}

/** A few at a time. */
async function together<T>(list: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const rest = list.values();
  const worker = async (): Promise<void> => {
    for (const one of rest) await work(one);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}
