import { Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";

import { ago, between, duration } from "@/lib/format";

/** The current time, renewed every `seconds`; not at all with 0. */
export function useNow(seconds: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (!seconds) return;
    const timer = setInterval(() => setNow(Date.now()), seconds * 1000);
    return () => clearInterval(timer);
  }, [seconds]);
  return now;
}

/** "5 min ago", with the exact time as a tooltip. */
export function Ago({ time }: { time: string | null | undefined }) {
  const now = useNow(10);
  if (!time) return <>–</>;
  return (
    <Tooltip label={new Date(time).toLocaleString()}>
      <time dateTime={time}>{ago(time, now)}</time>
    </Tooltip>
  );
}

/** The time between two moments; it runs while there is no end. */
export function Duration({ start, end }: { start: string | null; end: string | null }) {
  const now = useNow(start && !end ? 1 : 0);
  const seconds = between(start, end, now);
  return <>{seconds === null ? "–" : duration(seconds)}</>;
}
