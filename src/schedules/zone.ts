/** A time zone. Times on the wall are written as if they were UTC. */
export interface Zone {
  /** The time that a clock on the wall shows at a moment. */
  toWall(time: number): number;
  /** The latest time that a clock on the wall has shown up to a moment. Where clocks go back, it is later than `toWall`. */
  toLatestWall(time: number): number;
  /** The moment when a clock on the wall shows a time: the first one if there are two, and the next one if there is none. */
  toInstant(wall: number): number;
}

const dayMs = 86_400_000;

/** Returns a time zone. Throws a RangeError for a name that is not one. Each is made once: there are some hundred. */
export function toZone(name: string): Zone {
  const zone = zones.get(name) ?? createZone(name);
  zones.set(name, zone);
  return zone;
}
const zones = new Map<string, Zone>();

function createZone(name: string): Zone {
  const format = new Intl.DateTimeFormat("en-US", {
    timeZone: name,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  });
  const offsetAt = (time: number): number => {
    const second = Math.floor(time / 1_000) * 1_000;
    const parts = Object.fromEntries(format.formatToParts(second).map(({ type, value }) => [type, Number(value)]));
    const { year = 0, month = 0, day = 0, hour = 0, minute = 0, second: seconds = 0 } = parts;
    return Date.UTC(year, month - 1, day, hour, minute, seconds) - second;
  };
  const toWall = (time: number): number => time + offsetAt(time);
  /** The moment when the offset of `before` ends, which is another one at `after`. */
  const changeBetween = (before: number, after: number): number => {
    const offset = offsetAt(before);
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (offsetAt(middle) === offset) before = middle;
      else after = middle;
    }
    return after;
  };
  return {
    toWall,
    toLatestWall(time) {
      // Clocks go back by a day at most: after a day, they show later times again.
      const before = time - dayMs;
      if (offsetAt(before) <= offsetAt(time)) return toWall(time);
      return Math.max(toWall(time), toWall(changeBetween(before, time) - 1));
    },
    toInstant(wall) {
      // Two changes of a zone are more than two days apart.
      const offsets = [offsetAt(wall - dayMs), offsetAt(wall + dayMs)];
      const found = offsets.map((offset) => wall - offset).filter((time) => toWall(time) === wall);
      if (found.length > 0) return Math.min(...found);
      // The wall clock skips it: the moment when it is set forward.
      return changeBetween(wall - Math.max(...offsets), wall - Math.min(...offsets));
    },
  };
}
