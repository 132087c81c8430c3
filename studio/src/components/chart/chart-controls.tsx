/** How charts are shown: smoothing, log scale, what x is. The state belongs to the page, which keeps it in the address. */
import { Group, SegmentedControl, Slider, Switch, Text } from "@mantine/core";

import type { XKind } from "./series";

export type ChartSettings = { kind: XKind; isLog: boolean; smoothing: number };

/** Reads the settings from the search of an address. */
export function settingsOf(search: Record<string, unknown>): ChartSettings {
  const smoothing = Number(search.smooth ?? 0);
  return {
    kind: search.x === "time" || search.x === "elapsed" ? search.x : "step",
    isLog: search.log === "1" || search.log === 1,
    smoothing: smoothing > 0 && smoothing < 1 ? smoothing : 0,
  };
}

/** The settings as they stand in an address; what is usual is left out. */
export function searchOf({ kind, isLog, smoothing }: ChartSettings): Record<"x" | "log" | "smooth", string | undefined> {
  return { x: kind === "step" ? undefined : kind, log: isLog ? "1" : undefined, smooth: smoothing ? String(smoothing) : undefined };
}

type Props = { settings: ChartSettings; onChange: (settings: ChartSettings) => void };

export function ChartControls({ settings, onChange }: Props) {
  return (
    <Group gap="lg" wrap="wrap">
      <SegmentedControl
        size="xs"
        aria-label="Horizontal axis"
        value={settings.kind}
        onChange={(kind) => onChange({ ...settings, kind: kind as XKind })}
        data={[
          { value: "step", label: "Step" },
          { value: "elapsed", label: "Elapsed" },
          { value: "time", label: "Time" },
        ]}
      />
      <Group gap="xs" wrap="nowrap">
        <Text size="sm">Smoothing</Text>
        <Slider
          w={130}
          size="sm"
          min={0}
          max={0.99}
          step={0.01}
          value={settings.smoothing}
          onChange={(smoothing) => onChange({ ...settings, smoothing })}
          thumbLabel="Smoothing"
          label={(value) => value.toFixed(2)}
        />
      </Group>
      <Switch
        size="xs"
        label="Log scale"
        checked={settings.isLog}
        onChange={(event) => onChange({ ...settings, isLog: event.currentTarget.checked })}
      />
    </Group>
  );
}
