import { ServeError, type CustomApp, type SystemRuntime } from "agentserve";
import * as v from "valibot";
import { shop } from "../users.ts";
import { Order, order } from "../workflows/order.ts";
import { checkSignature } from "./signature.ts";

/** The body of a request. The id is part of it, so it is signed as well. */
const Delivery = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({ id: v.pipe(v.string(), v.regex(/^[\w.-]{1,100}$/)), order: Order }),
);

/** Adds the webhook. It answers 202 when the order is stored, before any work is done. */
export function addOrders(app: CustomApp, runtime: SystemRuntime): void {
  app.post("/webhooks/orders", async (event) => {
    const body = new Uint8Array(await event.req.arrayBuffer());
    checkSignature(body, event.req.headers);
    const delivery = v.safeParse(Delivery, new TextDecoder().decode(body));
    if (!delivery.success) throw new ServeError(400, `Invalid delivery: ${delivery.issues[0].message}`);
    // Services repeat their calls. The same delivery is the same execution, so the order starts once.
    const executionId = `order-${delivery.output.id}`;
    try {
      await runtime.start(order, delivery.output.order, { executionId, as: shop });
    } catch (error) {
      if (!(error instanceof ServeError && error.status === 409)) throw error; // 409: it has begun
    }
    event.res.status = 202;
    return { executionId };
  });
}
