/** Nodes by state: a bar of one box a node, and the counts in words. */
import { Text } from "@mantine/core";

import type { Target } from "@/api/queries";
import { colorOf, type Tone } from "@/lib/states";
import classes from "./compute.module.css";

const STATES: { state: string; word: string; tone: Tone }[] = [
  { state: "running", word: "busy", tone: "busy" },
  { state: "idle", word: "idle", tone: "waiting" },
  { state: "preparing", word: "starting", tone: "good" },
  { state: "leaving", word: "leaving", tone: "calm" },
  { state: "preempted", word: "preempted", tone: "bad" },
  { state: "unusable", word: "unusable", tone: "bad" },
];
const MOST_BOXES = 24;

export const wordOfNode = (state: string): string => STATES.find((each) => each.state === state)?.word ?? state;
export const toneOfNode = (state: string): Tone => STATES.find((each) => each.state === state)?.tone ?? "calm";

/** How many nodes there may be, if the settings say so. */
const mostNodes = (target: Target): number | null => (typeof target.config.max_nodes === "number" ? target.config.max_nodes : null);

type Props = { target: Target; hasNodes: boolean; counts?: Record<string, number> };

/** `counts`: of nodes that the server does not make itself, and so does not count with the target. */
export function NodeCounts({ target, hasNodes, counts: given = target.nodes }: Props) {
  if (!hasNodes) return <Text size="sm" c="dimmed">–</Text>;
  const counts = STATES.map((each) => ({ ...each, count: given?.[each.state] ?? 0 })).filter(({ count }) => count);
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const most = mostNodes(target);
  const boxes = counts.flatMap(({ tone, count }) => Array.from({ length: count }, () => tone));
  const empty = Math.max(0, (most ?? total) - total);
  return (
    <div className={classes.nodes}>
      {boxes.length + empty <= MOST_BOXES && boxes.length + empty > 0 && (
        <div className={classes.boxes} aria-hidden>
          {boxes.map((tone, index) => (
            <span key={index} style={{ background: colorOf(tone) }} />
          ))}
          {Array.from({ length: empty }, (_, index) => (
            <span key={`empty${index}`} data-empty />
          ))}
        </div>
      )}
      <Text size="xs" c="dimmed">
        {counts.length ? counts.map(({ word, count }) => `${count} ${word}`).join(", ") : "no nodes"}
        {most !== null && ` of ${most}`}
      </Text>
    </div>
  );
}
