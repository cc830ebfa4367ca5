import { expect, it } from "vitest";
import {
  countRun,
  maxCrashes,
  type LineTurn,
  type TurnOrders,
} from "../../src/backends/restate/conversations/line-turn.ts";
import { Line, type LineNews, type SyncInput } from "../../src/backends/restate/conversations/line.ts";

function createLine() {
  const told = new Map<string, LineNews | TurnOrders>();
  let made = 0;
  const line = new Line(
    null,
    (awakeable, news) => void told.set(awakeable, news),
    () => `new ${++made}`,
  );
  const sync = (input: Partial<SyncInput>): LineNews => {
    const news = line.sync({ leave: [], enter: [], keep: [], ...input });
    line.settle();
    return news;
  };
  const enter = (...ids: string[]): LineNews => sync({ enter: ids.map((id) => ({ id })) });
  const sweep = (): void => {
    line.settle().sweep = "sweep";
    line.sweep("sweep");
    line.settle();
  };
  return { line, told, sync, enter, sweep };
}

it("gives the turn to the first place of a conversation's line, and tells the next one when it leaves", () => {
  const { line, told, sync, enter } = createLine();
  expect(enter("1", "2", "3").head).toBe("1");
  line.watch("3", "w3");
  expect(sync({ leave: ["2"] }).head).toBe("1");
  expect(told.size).toBe(0);
  expect(sync({ leave: ["1"] }).head).toBe("3");
  expect(told.get("w3")).toEqual({ head: "3" });
});

it("a repeated call changes nothing in the line of a conversation", () => {
  const { enter } = createLine();
  enter("1", "2");
  expect(enter("2")).toEqual({ head: "1", gone: [], refused: [] });
  expect(enter("1").head).toBe("1");
});

it("takes at most 32 waiting places into the line of a conversation, beside named ones", () => {
  const { sync, enter } = createLine();
  const ids = Array.from({ length: 34 }, (_, index) => `${index}`);
  expect(enter(...ids).refused).toEqual(["33"]);
  expect(sync({ enter: [{ id: "n", name: "n" }] }).refused).toEqual([]);
  expect(sync({ leave: ["5", "6"], enter: [{ id: "a" }, { id: "b" }] }).refused).toEqual(["b"]);
});

it("drops the places of a line that are not renewed by the third sweep, all at once; others stay", () => {
  const { line, told, sync, enter, sweep } = createLine();
  enter("dead 1", "dead 2", "alive");
  line.watch("dead 2", "w2");
  line.watch("alive", "w3");
  for (let times = 0; times < 3; times++) {
    expect([line.head!.id, told.size]).toEqual(["dead 1", 0]);
    sync({ keep: ["alive"] });
    sweep();
  }
  expect(line.head!.id).toBe("alive");
  expect(told).toEqual(
    new Map([
      ["w2", { gone: ["dead 2"] }],
      ["w3", { head: "alive" }],
    ]),
  );
  expect(sync({ keep: ["dead 1", "alive"] }).gone).toEqual(["dead 1"]);
});

it("a sweep of a line that was replaced by another counts for nothing", () => {
  const { line, enter } = createLine();
  enter("1");
  line.settle().sweep = "new";
  for (let times = 0; times < 3; times++) line.sweep("old");
  expect(line.settle()).toMatchObject({ places: [{ id: "1", missed: 0 }], sweep: "new" });
  line.sweep("new");
  expect(line.settle()).toMatchObject({ places: [{ id: "1", missed: 1 }], sweep: undefined });
});

it("a later run of a named turn drops the earlier one, which cannot come back by a repeated call", () => {
  const { line, told, sync } = createLine();
  sync({ enter: [{ id: "other" }, { id: "1", name: "x" }] });
  line.watch("1", "w1");
  sync({ enter: [{ id: "2", name: "x" }] });
  expect(told.get("w1")).toEqual({ gone: ["1"] });
  expect(sync({ enter: [{ id: "1", name: "x", isRetry: true }] }).gone).toEqual(["1"]);
  expect(sync({ leave: ["other"] }).head).toBe("2");
});

const turn = { answerId: "a", workflowId: "@turn/x", records: "r", runs: 1, crashes: 0, recorded: 0 };
/** A line whose first place has a turn that has begun, before another place. */
function createBegun() {
  const created = createLine();
  created.sync({ enter: [{ id: "1", name: "t", isNew: true }, { id: "2" }] });
  created.line.head!.turn = { ...turn };
  return created;
}

it("a turn that has begun keeps its place when its replica is lost, under another id", () => {
  const { line, told, sync, sweep } = createBegun();
  line.watchOrders("1", { awakeable: "o1", isPublishing: false });
  for (let times = 0; times < 3; times++) {
    sync({ keep: ["2"] });
    sweep();
  }
  expect(line.handedOver).toMatchObject([{ id: "new 1", name: "t", turn: { isHandedOver: true, crashes: 1 } }]);
  expect(told.get("o1")).toEqual({ isOver: true });
  expect(sync({ keep: ["1", "2"] })).toEqual({ head: "new 1", gone: ["1"], refused: [] });
  // Restate has it from now on: no sweep counts.
  for (let times = 0; times < 5; times++) {
    sync({ keep: ["2"] });
    sweep();
  }
  expect([line.head!.id, line.handedOver.length, line.ended.length]).toEqual(["new 1", 1, 0]);
  line.leave(["new 1"]);
  expect(line.ended.map(({ id }) => id)).toEqual(["new 1"]);
  expect(sync({}).head).toBe("2");
});

it("a turn that is handed over by a shutdown has no crash, and a place without a turn is left", () => {
  const { line, sync } = createBegun();
  expect(sync({ handOver: ["1", "2"] }).head).toBe("new 1");
  expect(line.handedOver).toMatchObject([{ id: "new 1", turn: { crashes: 0 } }]);
  expect(line.settle().places).toHaveLength(1);
  expect(line.needsSweep).toBe(false);
});

it("the runner of a turn is told of a stop and of readers elsewhere, each of them once", () => {
  const { line, told } = createBegun();
  line.watchOrders("1", { awakeable: "o1", isPublishing: false });
  line.settle();
  expect(told.size).toBe(0);
  line.head!.turn!.isHeard = true;
  line.settle();
  expect(told.get("o1")).toMatchObject({ isHeard: true });
  line.watchOrders("1", { awakeable: "o2", isPublishing: true });
  line.settle();
  expect(told.has("o2")).toBe(false);
  line.head!.turn!.isStopped = true;
  line.settle();
  expect(told.get("o2")).toMatchObject({ isStopped: true });
  line.watchOrders("2", { awakeable: "o3", isPublishing: false });
  expect(told.get("o3")).toEqual({ isOver: true });
});

it("crashes of a turn count in a row, without a new record between them", () => {
  const begun: LineTurn = { ...turn, crashes: 1 };
  expect(countRun(begun, 2)).toMatchObject({ run: 2, crashes: 1 });
  expect(countRun(begun, 2)).toMatchObject({ run: 3, crashes: 2 });
  expect(countRun(begun, 3)).toMatchObject({ run: 4, crashes: 1 });
  begun.crashes--; // a shutdown
  expect(countRun(begun, 3)).toMatchObject({ run: 5, crashes: 1 });
  expect(countRun(begun, 3)).toMatchObject({ crashes: 2 });
  expect(countRun(begun, 3)).toMatchObject({ crashes: maxCrashes });
});
