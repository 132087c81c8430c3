/** A filter as a chip: what it is, its value, a button that removes it; it opens the choice of values. */
import { CloseButton, Popover, UnstyledButton } from "@mantine/core";
import { IconChevronDown } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";

import classes from "./filter-bar.module.css";

type Props = {
  label: string;
  /** The value as text; empty if the filter is not set. */
  value: string;
  onClear: () => void;
  width?: number;
  children: (close: () => void) => ReactNode;
};

export function FilterChip({ label, value, onClear, width = 250, children }: Props) {
  const [isOpen, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-start" width={width} trapFocus returnFocus shadow="md">
      <span className={classes.chip} data-set={value ? true : undefined}>
        <Popover.Target>
          <UnstyledButton className={classes.open} onClick={() => setOpen(!isOpen)}>
            {label}
            {value ? <span className={classes.value}>{value}</span> : <IconChevronDown size={13} aria-hidden />}
          </UnstyledButton>
        </Popover.Target>
        {value && <CloseButton size="sm" radius="xl" mr={3} aria-label={`Remove the filter ${label}`} onClick={onClear} />}
      </span>
      <Popover.Dropdown p="xs">{isOpen && children(close)}</Popover.Dropdown>
    </Popover>
  );
}
