import { once } from "node:events";
import { connect } from "node:net";
import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { withBounds } from "../harness/bounds.ts";
import { chosenBackend } from "../harness/backends.ts";
import { describeServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

const noisy = defineWorkflow({ id: "noisy" }).andThen({
  id: "s",
  async execute({ emit, signal }) {
    const pad = "x".repeat(1_000);
    for (let n = 0; n < 20_000 && !signal.aborted; n++) {
      emit({ type: "noise", n, pad });
      if (n % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    return "done";
  },
});
describeServer(
  "a reader who stops reading",
  { config: withBounds({ sseBufferBytes: 100_000 }, { workflows: [noisy] }), only: ["start"] },
  (server) => {
    it("drops live events beyond sseBufferBytes for a reader that stops reading, and cancels nothing", async () => {
      const { port } = new URL((await server.send("/workflows", {})).url);
      const body = JSON.stringify({ input: {}, options: { executionId: "noisy" } });
      const socket = connect(Number(port), "127.0.0.1");
      socket.write(
        `POST /workflows/noisy/stream HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
      );
      await once(socket, "readable");
      socket.pause();
      await eventually(async () =>
        expect((await server.get("/workflows/noisy/executions/noisy/state")).body.data.status).toBe("completed"),
      );
      let got = "";
      socket.setEncoding("utf8").on("data", (chunk) => (got += chunk));
      socket.resume();
      await eventually(() => expect(got).toContain("workflow-result"));
      socket.destroy();
      const noise = got.match(/"type":"noise"/g)?.length ?? 0;
      console.log(`of 20,000 live events of 1 KB, ${noise} reached a reader who had stopped`);
      // A reader on Restate may still be reading the stored events while all of these are emitted.
      if (!chosenBackend.isDistributed) expect(noise).toBeGreaterThan(0);
      expect(noise).toBeLessThan(20_000); // what did not fit was dropped; the lifecycle is whole
      const seqs = [...got.matchAll(/"seq":(\d+)/g)].map(([, seq]) => Number(seq));
      expect(seqs).toEqual([1, 2, 3, 4]);
    });
  },
);
