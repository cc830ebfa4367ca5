import { expect, it } from "vitest";
import type { TurnOrders } from "../../src/backends/restate/conversations/line-turn.ts";
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

it("the first place has the turn, and the next one is told when it leaves", () => {
  const { line, told, sync, enter } = createLine();
  expect(enter("1", "2", "3").head).toBe("1");
  line.watch("3", "w3");
  expect(sync({ leave: ["2"] }).head).toBe("1");
  expect(told.size).toBe(0);
  expect(sync({ leave: ["1"] }).head).toBe("3");
  expect(told.get("w3")).toEqual({ head: "3" });
});

it("a call that is repeated changes nothing", () => {
  const { enter } = createLine();
  enter("1", "2");
  expect(enter("2")).toEqual({ head: "1", gone: [], refused: [] });
  expect(enter("1").head).toBe("1");
});

it("32 places may wait, and named ones more", () => {
  const { sync, enter } = createLine();
  const ids = Array.from({ length: 34 }, (_, index) => `${index}`);
  expect(enter(...ids).refused).toEqual(["33"]);
  expect(sync({ enter: [{ id: "n", name: "n" }] }).refused).toEqual([]);
  expect(sync({ leave: ["5", "6"], enter: [{ id: "a" }, { id: "b" }] }).refused).toEqual(["b"]);
});

it("places that are not renewed are dropped by the third sweep, all at once; others stay", () => {
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

it("a sweep that was replaced by another counts for nothing", () => {
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
