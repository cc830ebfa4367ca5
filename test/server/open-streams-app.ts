// The order `stop` returns how many bytes garbage collections have moved to the old generation since `start`.
import { GCProfiler } from "node:v8";
import { defineWorkflow, embedded } from "../../src/index.ts";
import { createComplaintLogger, type Hosted } from "../harness/hosted.ts";

const one = defineWorkflow({ id: "one" }).andThen({ id: "only", execute: () => 1 });
type Heap = ReturnType<GCProfiler["stop"]>["statistics"][number]["beforeGC"];

export default function create({ streams }: { streams: number }): Hosted {
  const profiler = new GCProfiler();
  return {
    config: {
      workflows: [one],
      backend: embedded({ path: ":memory:" }),
      server: { limits: { sseStreamsPerCaller: streams } },
    },
    logger: createComplaintLogger(() => {}),
    orders: {
      start: () => profiler.start(),
      stop: () =>
        profiler
          .stop()
          .statistics.filter(({ gcType }) => gcType === "Scavenge")
          .reduce((bytes, { beforeGC, afterGC }) => bytes + toOld(afterGC) - toOld(beforeGC), 0),
    },
  };
}

const toOld = ({ heapSpaceStatistics }: Heap): number =>
  heapSpaceStatistics.find(({ spaceName }) => spaceName === "old_space")!.spaceUsedSize;
