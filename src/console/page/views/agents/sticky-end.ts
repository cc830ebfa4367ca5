import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** The distance from the end of the page within which a reader follows new words. */
const near = 80;

/** Keeps the end of the page in view while `content` grows, unless the reader has scrolled up. */
export function useStickyEnd(content: unknown): {
  readonly isAway: boolean;
  toEnd(): void;
  /** Adds content above without moving what is shown. */
  keepPlace(add: () => Promise<unknown>): Promise<void>;
} {
  const [isAway, setAway] = useState(false);
  const follows = useRef(true);
  useEffect(() => {
    let last = scrollY;
    const look = (): void => {
      const isNear = innerHeight + scrollY >= document.documentElement.scrollHeight - near;
      // Only the reader scrolls up. The end also moves away when words arrive between a scroll and its event.
      if (isNear || scrollY < last) follows.current = isNear;
      last = scrollY;
      setAway(!follows.current);
    };
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  useLayoutEffect(() => {
    if (follows.current) toEnd();
  }, [content]);
  return {
    isAway,
    toEnd,
    async keepPlace(add) {
      follows.current = false;
      const below = document.documentElement.scrollHeight - scrollY;
      await add();
      requestAnimationFrame(() => scrollTo(0, document.documentElement.scrollHeight - below));
    },
  };
}

const toEnd = (): void => scrollTo(0, document.documentElement.scrollHeight);
