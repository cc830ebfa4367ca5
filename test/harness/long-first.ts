import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * Small files that take long. Vitest starts the longest file of the last run first; without a last run, as after `npm ci`,
 * it goes by size, and one of these would run alone at the end.
 */
const long = /\/(docs\/examples|cli\/(packed|init|trouble|access)|dev\/saves)\b/;

export class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification): boolean => long.test(moduleId);
    // oxlint-disable-next-line unicorn/no-array-sort -- of the sequencer
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}
