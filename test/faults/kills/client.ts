import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { checkInterruption, checkTied, toInput } from "./family.ts";
import { forkOf, type Others } from "./fork.ts";
import type { Mark } from "./log.ts";
import { Poster } from "./letters.ts";
import { againOf, asking } from "./oracle.ts";
import type { Plan } from "./plan.ts";
import type { Reply, Serving, Stream } from "./process.ts";
import { retry } from "./retry.ts";
import { endsByItself } from "./waits.ts";
import { answer } from "./workload.ts";
import { closingEvents, isEnd, isInterrupted, Witness, toView, type View } from "./witness.ts";

/** One execution's client. It knows only what HTTP tells it, and goes on over every kill. */
export class Client {
  readonly plan: Plan;
  /** Undefined until the execution has an id. */
  witness: Witness | undefined;
  readonly lives: Serving;
  readonly #others: Others;
  #over = false;
  #fork: Promise<void> | undefined;
  #resumes = 0;
  #attaches = 0;
  #interruption: string | undefined;
  readonly #poster: Poster;

  constructor(plan: Plan, lives: Serving, others: Others) {
    this.plan = plan;
    this.lives = lives;
    this.#others = others;
    this.#poster = new Poster(lives);
    if (plan.id !== undefined) this.#setId(plan.id);
  }

  #setId(id: string): Witness {
    if (!this.witness) this.#others.known(this, (this.witness = new Witness(id, this.plan, this.lives.log)));
    if (id !== this.witness.id) this.witness.fail(`was given another id, ${id}`);
    return this.witness;
  }

  /** Follows it to its end, or to a suspension that is to stay. */
  async live(onBegun: () => void = () => {}): Promise<void> {
    const acting = this.#act();
    acting.catch(() => {}); // awaited below
    const posting = this.witness && this.#poster.sendEarly(this.witness, this.plan.posting, () => this.#over);
    posting?.catch(() => {}); // awaited below
    const isKnown = await this.#begin();
    onBegun();
    if (isKnown) await this.follow(this.plan.ending);
    this.#over = true;
    await Promise.all([acting, posting]);
    await this.#fork;
  }

  /** Follows one that was left suspended to its end. */
  async end(): Promise<void> {
    await this.follow("resume");
    await this.#fork;
  }

  async follow(ending: Plan["ending"]): Promise<void> {
    const { plan } = this;
    const witness = this.witness!;
    for (;;) {
      const view = await this.#settle(witness);
      const fork = this.#fork ? undefined : forkOf(this, witness, view);
      if (fork) this.#fork = (await this.#others.fork(fork, this)).over;
      if (witness.final) break;
      if (witness.isFailure(view)) {
        await retry(this, witness);
        continue;
      }
      const isLate = await this.#wait(witness, view, ending);
      if (isLate) continue;
      if (ending === "stay") return;
      if (ending === "cancel") await this.#cancel(witness, "cancelled while it was suspended");
      else await this.#resume(witness, view);
    }
    const end = closingEvents[witness.final!.status];
    while (plan.reads && witness.events.at(-1)?.type !== end) await this.read(witness);
  }

  /** Waits for what ends a suspension without a resume, if it is of that kind. A resume may be its rival. */
  async #wait(witness: Witness, { suspension }: View, ending: Plan["ending"]): Promise<boolean> {
    const { plan } = this;
    if (!endsByItself(suspension) || (ending === "cancel" && plan.n % 2 === 0)) return false;
    if (suspension.kind === "event") await this.#poster.send(witness, suspension.stepId === "second" ? 2 : 1);
    if (suspension.kind === "person" && plan.rivals) {
      await sleep(Math.max(0, Date.parse(suspension.deadline) - Date.now() - (plan.n % 8)));
      return false;
    }
    await sleep(20);
    return true;
  }

  /** False when it has no id of the client's, and nobody knows whether it began. */
  async #begin(): Promise<boolean> {
    const { workflow, way, n, id, settings, origin } = this.plan;
    const json = { input: { n }, options: { executionId: id, context: { settings } } };
    if (settings.broken && this.plan.retries === 0) this.lives.mend!(id!);
    for (;;) {
      const begun = origin
        ? await this.#execute(`/workflows/${workflow}/executions/${origin.id}/fork`, this.#toForkBody(), way === "wait")
        : way === "stream"
          ? await this.#stream(`/workflows/${workflow}/stream`, json)
          : await this.#execute(`/workflows/${workflow}/execute`, json, way === "wait");
      if (begun) return true;
      if (!this.witness) return false;
      const { witness } = this;
      const found = await this.lookUntilAnswered(witness);
      this.#checkBeginning(witness, found !== "missing");
      if (found !== "missing") return true;
    }
  }

  #toForkBody(): object {
    const { id, n, origin } = this.plan;
    return id === undefined ? { input: { n } } : { fromStep: origin?.fromStep, options: { executionId: id } };
  }

  /** False when nobody knows. */
  async #execute(path: string, json: unknown, wait: boolean): Promise<boolean> {
    const version = this.witness?.version ?? 0;
    const reply = await this.lives.ask(path, {
      method: "POST",
      json,
      headers: wait ? {} : { prefer: "respond-async" },
    });
    if (!reply) return false;
    const { status, executionId, body } = reply;
    // An earlier call that was not answered has been carried out since.
    if (status === 409 && this.witness && this.lives.commitsLate) return true;
    if (executionId === undefined) throw new Error(`${path} answered ${status}: ${JSON.stringify(body)}`);
    const witness = this.#setId(executionId);
    witness.acknowledged = true;
    this.checkStatus(witness, reply, wait ? [200, 409, 500] : [202]);
    if (status === 200) this.saw(witness, version, toView(body.data));
    return true;
  }

  async #stream(path: string, json: unknown): Promise<boolean> {
    const version = this.witness?.version ?? 0;
    const stream = await this.lives.open(path, { method: "POST", json });
    if (!stream) return false;
    if (stream.status === 409 && this.witness && this.lives.commitsLate) return true;
    if (stream.executionId === undefined) throw new Error(`${path} answered ${stream.status}`);
    const witness = this.#setId(stream.executionId);
    witness.acknowledged = true;
    await this.#take(witness, version, stream);
    return true;
  }

  /** A kill at a point of the beginning says whether it must be there. */
  #checkBeginning(witness: Witness, exists: boolean): void {
    const mark = this.lastMark();
    if (mark?.execution !== witness.id || !/^(begin|fork):/.test(mark.point)) return;
    if (exists !== mark.point.endsWith(":after")) witness.fail(`${exists ? "exists" : "is gone"} after ${mark.point}`);
  }

  lastMark(): Mark | undefined {
    const mark = this.lives.log.marks.at(-1);
    return mark?.life === this.lives.life - 1 ? mark : undefined;
  }

  /** Waits until it is suspended or has ended. */
  async #settle(witness: Witness): Promise<View> {
    for (;;) {
      if (witness.final) return witness.final;
      if (this.plan.reads) await this.read(witness);
      const found = await this.#look(witness);
      if (found === "missing") witness.fail("is gone");
      if (found && found.status !== "running") return found;
      if (!this.plan.reads) await sleep(40);
    }
  }

  /** Whether a cancel was not carried out, and a child would not end without it in the time of a test. */
  async #mustCancelAgain(witness: Witness): Promise<boolean> {
    if (this.plan.act?.at !== "waits" || witness.final) return false;
    const found = await this.lookUntilAnswered(witness);
    return found === "missing" ? witness.fail("is gone") : !isEnd(found);
  }

  async lookUntilAnswered(witness: Witness): Promise<View | "missing"> {
    for (;;) {
      const found = await this.#look(witness);
      if (found) return found;
    }
  }

  /** Undefined when nobody answered, or something newer is known already. */
  async #look(witness: Witness): Promise<View | "missing" | undefined> {
    const { version } = witness;
    const { life } = this.lives;
    const reply = await this.lives.ask(this.path("state"));
    if (!reply) return undefined;
    if (reply.status === 404) {
      if (this.lives.isOver(life)) return undefined; // the port may be somebody else's by now
      const { length } = this.lives.log.of(witness.id);
      if (witness.acknowledged) witness.fail("was acknowledged, and is gone");
      if (length > 0 && this.lives.commitsLate) return undefined; // it began after it was looked for
      if (length > 0) witness.fail("has run steps, and is gone");
      return "missing";
    }
    this.checkStatus(witness, reply, [200]);
    const { input, workflowId, forkedFrom } = reply.body.data;
    const { workflow, origin } = this.plan;
    if (workflowId !== workflow || !isDeepStrictEqual(input, toInput(this.plan)) || forkedFrom !== origin?.id)
      witness.fail("is another one");
    const view = toView(reply.body.data);
    this.#continueInterrupted(witness, reply.body.data.suspension);
    return this.saw(witness, version, view) ? view : undefined;
  }

  /** Resumes an execution that the server has suspended after three crashes: once in each life. */
  #continueInterrupted(witness: Witness, suspension: any): void {
    if (!isInterrupted(suspension)) return;
    checkInterruption(witness, this.lives.life);
    const interruption = `${this.lives.life} ${suspension.suspendedAt}`;
    if (this.#interruption === interruption) return;
    this.#interruption = interruption;
    this.lives.ask(this.path("resume"), { method: "POST", json: {} }).catch((error) => this.lives.fail(error));
  }

  /** It must be as it was seen before. */
  async look(): Promise<void> {
    if (this.witness?.acknowledged) await this.#look(this.witness);
  }

  saw(witness: Witness, version: number, view: View): boolean {
    if (witness.version !== version && (!isEnd(view) || witness.isFailure(view))) return false;
    witness.saw(view);
    return true;
  }

  /** Attaches after the last event that it has, and reads until the stream is over. */
  async read(witness: Witness): Promise<void> {
    const last = String(witness.events.length);
    // Both ways to say where to go on, in turn.
    const byHeader = this.#attaches++ % 2 === 1;
    const { version } = witness;
    const stream = await this.lives.open(
      this.path(byHeader ? "stream" : `stream?after=${last}`),
      byHeader ? { headers: { "last-event-id": last } } : {},
    );
    if (!stream) return;
    if (stream.status !== 200) witness.fail(`answered ${stream.status} to a reader`);
    const closed = await this.#take(witness, version, stream);
    // Nobody has continued it yet.
    if (closed && !witness.final) await sleep(10);
  }

  /** Resolves to what closed the stream. `version`: what was known when it was asked for. */
  async #take(witness: Witness, version: number, { status, frames }: Stream): Promise<View | undefined> {
    let view: View | undefined;
    if (status !== 200) return witness.fail(`answered ${status} to a reader`);
    for await (const frame of frames) {
      if (frame === ":") continue;
      const [, id, json] = /^(?:id: (\d+)(?:\.end)?\n)?data: (.*)$/.exec(frame) ?? witness.fail(`sent ${frame}`);
      const event = JSON.parse(json!);
      if (view) witness.fail(`sent ${json} after the end of the stream`);
      if (event.type === "workflow-result") {
        if (isInterrupted(event.suspension)) return undefined;
        view = toView(event);
      } else if (id !== undefined && Number(id) !== event.seq) witness.fail(`sent the id ${id} with ${json}`);
      else witness.event(event);
    }
    if (!view) return undefined;
    const last = witness.events.at(-1)?.type;
    if (last !== closingEvents[view.status]) witness.fail(`closed a stream as ${view.status} after ${last}`);
    this.saw(witness, version, view);
    return view;
  }

  /** Every event that is stored, from the first on. */
  async stored(): Promise<any[]> {
    for (;;) {
      const events: any[] = [];
      const stream = await this.lives.open(this.path("stream?after=0"));
      for await (const frame of stream?.frames ?? [])
        events.push(JSON.parse(frame.replace(/^(id: \d+(\.end)?\n)?data: /, "")));
      if (events.at(-1)?.type !== "workflow-result") continue; // the process died meanwhile
      this.witness!.saw(toView(events.pop()));
      return events;
    }
  }

  async #resume(witness: Witness, { suspension }: View): Promise<void> {
    const { plan } = this;
    const byRequest = suspension.reason === witness.suspendReason;
    const waiting: { stepId: string; data?: { round: number } }[] = suspension.pending ?? [suspension];
    const target = waiting[(plan.n + this.#resumes) % waiting.length]!;
    // At its deadline the step continues, and a request may suspend the execution behind it: its name would be an order to go
    // back. What is first in order need not be named.
    const mayPass = suspension.deadline !== undefined && plan.act?.what === "suspend";
    const isNamed = !byRequest && !mayPass && (target !== waiting[0] || plan.n % 2 === 1);
    const stepId = isNamed ? target.stepId : undefined;
    const round = (target.data?.round ?? 0) + 1;
    const tries = ++this.#resumes;
    // A rival who comes late must not find the next suspension, which would be his.
    const isLast = byRequest
      ? asking(plan.workflow).length === 0
      : !suspension.pending && round > againOf(plan) && plan.act?.what !== "suspend";
    const rivals = plan.rivals && isLast;
    const tokens = (rivals ? ["a", "b"] : ["a"]).map((rival) => `${round}${rival}${tries}`);
    // Nobody waits for data after a suspension by request: it must not reach a step.
    if (byRequest) for (const token of tokens) witness.lost.add(token);
    const from = witness.release();
    const { version } = witness;
    const calling = { answered: false };
    const calls = tokens.map((token) => {
      const json = { resumeData: answer(token), options: { ...(stepId !== undefined && { stepId }) } };
      return this.lives.ask(this.path("resume"), { method: "POST", json });
    });
    const replies = Promise.all(calls).finally(() => (calling.answered = true));
    replies.catch(() => {});
    while (plan.reads && !calling.answered && !witness.final) await this.read(witness);
    const winners: Reply[] = [];
    const answers = await replies;
    const isOver = Date.now() >= Date.parse(suspension.deadline); // false without a deadline
    const mayBeOther = isOver && mayPass; // a suspension by request takes no data
    for (const [index, reply] of answers.entries()) {
      if (!reply) continue;
      this.checkStatus(witness, reply, [200, 404, 409, 500]);
      if (reply.status === 404) witness.lost.add(tokens[index]!);
      else winners.push(reply);
      if (reply.status === 200 && !byRequest && !mayBeOther) witness.won.add(tokens[index]!);
      if (reply.status === 200) this.saw(witness, version, toView(reply.body.data));
    }
    if (winners.length > 1) witness.fail(`was resumed by both of ${tokens.join(" and ")}`);
    // Where commits can be late, an earlier resume may have won that was answered 503, or not at all.
    const isRefused = answers.every((reply) => reply?.status === 404) && !this.lives.commitsLate;
    if (isRefused && !isOver && witness.cancelReasons.size === 0)
      witness.fail(`could not be resumed: ${JSON.stringify(answers[0]!.body)}`);
    if (answers.some((reply) => reply !== undefined && reply.status !== 404)) return;
    await this.#checkUnresumed(witness, suspension, from);
  }

  /** The process died before it answered: either it was resumed and goes on, or nothing of it has happened. */
  async #checkUnresumed(witness: Witness, suspension: unknown, from: number): Promise<void> {
    const found = await this.lookUntilAnswered(witness);
    if (found === "missing") return witness.fail("is gone");
    if (!isDeepStrictEqual(found.suspension, suspension)) return;
    if (this.lives.log.of(witness.id).some(({ what, at }) => what === "begin" && at > from))
      witness.fail("went on after a resume, and is suspended as before");
    const mark = this.lastMark();
    if (mark?.execution === witness.id && mark.point === "signal:running:after")
      witness.fail(`is not resumed after ${mark.point}`);
  }

  async #cancel(witness: Witness, reason: string): Promise<void> {
    witness.cancelReasons.add(reason);
    const reply = await this.lives.ask(this.path("cancel"), { method: "POST", json: { reason } });
    if (!reply) return;
    this.checkStatus(witness, reply, [200, 400]);
    if (reply.status !== 200) return;
    witness.saw(toView(reply.body.data));
    await checkTied(witness, this.lives);
  }

  /** Once its step has begun, so that the execution surely exists. */
  async #act(): Promise<void> {
    const { plan, witness } = this;
    if (!plan.act || !witness) return;
    const { what, at } = plan.act;
    const { log } = this.lives;
    const isTime = (): boolean =>
      at === "waits" ? log.waitsOf(witness.id).length > 0 : log.of(witness.id).some(({ path }) => path === at);
    while (!isTime()) {
      if (this.#over) return;
      await this.lives.within("a moment", sleep(5));
    }
    if (what === "cancel") {
      do await this.#cancel(witness, `cancelled at ${at}`);
      while (await this.#mustCancelAgain(witness));
      return;
    }
    witness.suspendReason = `suspended at ${at}`;
    const { releases } = witness;
    const reply = await this.lives.ask(this.path("suspend"), {
      method: "POST",
      json: { reason: witness.suspendReason },
    });
    if (!reply) return;
    this.checkStatus(witness, reply, [200, 400]);
    if (reply.status === 200 && witness.releases === releases) witness.suspended();
  }

  path(what: string): string {
    return `/workflows/${this.plan.workflow}/executions/${this.witness!.id}/${what}`;
  }

  checkStatus(witness: Witness, { status, executionId, body }: Reply, allowed: readonly number[]): void {
    if (!allowed.includes(status)) witness.fail(`answered ${status}: ${JSON.stringify(body)}`);
    if (status < 300 && executionId !== witness.id) witness.fail(`answered with the id ${executionId}`);
  }
}
