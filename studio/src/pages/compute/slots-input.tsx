import { NumberInput } from "@mantine/core";

import classes from "./compute.module.css";

type Props = { slots: number | null; onChange: (slots: number | null) => void };

/** How many runs may be active on a target; null for as many as it has room for. */
export function SlotsInput({ slots, onChange }: Props) {
  return (
    <NumberInput
      label="Runs at once"
      description="How many runs may be active there at a time. Without it, as many as it has room for."
      classNames={{ wrapper: classes.short }}
      value={slots ?? ""}
      onChange={(value) => onChange(typeof value === "number" ? value : null)}
      min={1}
      max={100_000}
      allowDecimal={false}
      allowNegative={false}
      placeholder="As there is room"
    />
  );
}
