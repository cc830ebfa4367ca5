// An order whose card fails, on a file. Each step writes a line to `log` when it begins. `invoice` waits for the order `open`.
import { join } from "node:path";
import { embedded } from "../../../src/index.ts";
import { createGates } from "../../harness/gates.ts";
import { createLog, type Hosted } from "../../harness/hosted.ts";
import { createOrder } from "./order.ts";

export default ({ folder }: { folder: string }): Hosted => {
  const log = createLog(folder);
  const gates = createGates();
  const order = createOrder(async (step) => {
    log(step);
    if (step === "charge") throw new Error("charge is broken");
    if (step === "invoice") await gates.pass("invoice");
  });
  return {
    mode: "dev",
    config: { workflows: [order], backend: embedded({ path: join(folder, "data.db") }) },
    orders: { open: () => gates.open("invoice") },
  };
};
