/** The shop of the demo. Replace it by calls of your own systems. */
import { ServeError } from "agentserve";

interface Order {
  readonly number: string;
  readonly customer: string;
  readonly item: string;
  readonly price: number;
  readonly status: string;
}

const orders: readonly Order[] = [
  { number: "1001", customer: "ada", item: "desk lamp", price: 40, status: "delivered on Monday" },
  { number: "1002", customer: "ada", item: "notebook", price: 12, status: "on its way" },
];

const helpPages = [
  {
    topic: "return",
    text: "You can return everything within 30 days. Print the label in your account, and drop the parcel.",
  },
  { topic: "deliver", text: "Parcels arrive within three working days. You get a link to follow yours by mail." },
  { topic: "warranty", text: "Lamps and chairs have a warranty of three years. Keep the invoice." },
];

/** The amounts that were paid back, by the key of the call. */
const refunds = new Map<string, number>();

/** Returns an order of a user. Models and users get the message of a `ServeError`, and of no other error of a tool. */
export function findOrder(userId: string | undefined, number: string) {
  const order = orders.find((one) => one.number === number && one.customer === userId);
  if (!order) throw new ServeError(404, `There is no order ${number}`);
  const { item, price, status } = order;
  return { number, item, price, status };
}

export function searchHelp(question: string) {
  const page = helpPages.find(({ topic }) => question.toLowerCase().includes(topic));
  return page?.text ?? "No help page was found.";
}

export function payBack(userId: string | undefined, number: string, amount: number, key: string) {
  const { item, price } = findOrder(userId, number);
  if (amount > price) throw new ServeError(400, `The ${item} cost only ${price} €`);
  refunds.set(key, amount); // with the same key, the money is paid once
  return { number, item, refunded: amount };
}
