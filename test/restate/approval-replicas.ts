import { rmSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { Payment } from "./bank-app.ts";
import { ReplicaGroup, ReplicaProcess, type Answer } from "./replica-process.ts";

/** A replica of `bank-app.ts`. */
class ApprovalReplica extends ReplicaProcess {
  /** Sends a request. Undefined: the process was killed before the whole answer. */
  async ask(...request: Parameters<ReplicaProcess["request"]>): Promise<Answer | undefined> {
    try {
      return await this.request(...request);
    } catch (error) {
      if (!this.isKilled) throw error;
    }
  }
}

/** Replicas of `bank-app.ts`, until the test is over. */
export class ApprovalReplicas extends ReplicaGroup<ApprovalReplica> {
  static start(count: number): Promise<ApprovalReplicas> {
    const module = join(import.meta.dirname, "bank-app.ts");
    const replicas = new ApprovalReplicas((place) => new ApprovalReplica(module, place), { count });
    onTestFinished(() => replicas.close());
    return replicas.open();
  }

  /** The runs of the tool, in their order. */
  payments(to?: string): Payment[] {
    const all = this.lines("log").map((line) => JSON.parse(line) as Payment);
    return to === undefined ? all : all.filter(({ input }) => input.to === to);
  }
  /** Lets the runs of the tool for an id last. Returns the release. */
  hold(id: string): () => void {
    this.touch(`hold-${id}`);
    return () => rmSync(join(this.folder, `hold-${id}`), { force: true });
  }
}
