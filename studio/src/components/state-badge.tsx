import { Text, Tooltip } from "@mantine/core";

import { colorOf, type Tone, toneOf } from "@/lib/states";

import classes from "./state-badge.module.css";

/** A dot and a word in a tone; the word says it, so that colour is not needed. */
export function Dot({ tone, label, title }: { tone: Tone; label: string; title?: string }) {
  const badge = (
    <span className={classes.badge} data-tone={tone}>
      <span className={classes.dot} style={{ background: colorOf(tone) }} aria-hidden />
      <Text span size="sm" style={{ color: colorOf(tone) }} fw={500}>
        {label}
      </Text>
    </span>
  );
  return title ? (
    <Tooltip label={title} multiline maw={420}>
      {badge}
    </Tooltip>
  ) : (
    badge
  );
}

/** The state of a run. `message` is its reason, as a tooltip. */
export function StateBadge({ state, message }: { state: string; message?: string }) {
  return <Dot tone={toneOf(state)} label={state} title={message} />;
}
