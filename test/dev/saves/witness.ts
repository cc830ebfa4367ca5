import { readFileSync } from "node:fs";

/** What the project's own code wrote down: which load of the config was opened, ran something, was disposed of. */
export interface Witness {
  /** What is wrong with the order of it. */
  mistakes(): string[];
  /** The loads that were opened and not disposed of. */
  left(): number[];
}

export function readWitness(file: string): Witness {
  const lines = readFileSync(file, "utf8").split("\n").filter(Boolean);
  const loads = lines.filter((line) => line.startsWith("opened ")).map((line) => Number(line.split(" ")[1]));
  return {
    left: () => loads.filter((load) => !lines.includes(`disposed ${load}`)),
    mistakes: () =>
      loads.flatMap((load) => {
        const disposed = lines.indexOf(`disposed ${load}`);
        if (disposed < 0) return [];
        const isTwice = lines.lastIndexOf(`disposed ${load}`) !== disposed;
        const isEarly = lines.lastIndexOf(`ran ${load}`) > disposed;
        return [
          isTwice && `load ${load} was disposed of twice`,
          isEarly && `load ${load} ran after it was disposed of`,
        ].filter((mistake) => mistake !== false);
      }),
  };
}
