/** Inputs for the formats that only compute knows: a size of virtual machines, another target. */
import { Alert, Input, SegmentedControl, Select, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useId, useMemo, useState } from "react";

import { kinds, targets } from "@/api/queries";
import { frame, type InputProps, type Inputs } from "@/components/schema-form";
import { money, plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import classes from "./compute.module.css";
import { type VmSize, vmSizes } from "./queries";

/** `isHere`: whether the nodes are shares of the server's own computer. */
export const formatInputs = (isHere: boolean): Inputs => ({
  "vm-size": (props) => <VmSizeInput {...props} isHere={isHere} />,
  target: (props) => <TargetInput {...props} />,
});

const sameSize = (name: string) => name.trim().toLowerCase().replace(/^standard_/, "");

function VmSizeInput({ isHere, ...props }: InputProps & { isHere: boolean }) {
  const { workspace } = useWorkspace();
  const { data, isPending } = useQuery(vmSizes(workspace));
  const chosen = String(props.value ?? props.field.default ?? "");
  const size = data?.sizes.find(({ name }) => sameSize(name) === sameSize(chosen));
  const [type, setType] = useState<"CPU" | "GPU" | null>(null);
  const shownType = type ?? (size?.gpus ? "GPU" : "CPU");
  const typeId = useId();
  const shown = useMemo(
    () => (data?.sizes ?? []).filter(({ gpus }) => gpus > 0 === (shownType === "GPU")).sort(bySize),
    [data, shownType],
  );
  const known = new Map(shown.map((each) => [each.name, each]));
  return (
    <>
      <Input.Wrapper label="Virtual machine type" labelElement="div" labelProps={{ id: typeId }}>
        <div>
          <SegmentedControl
            aria-labelledby={typeId}
            data={["CPU", "GPU"]}
            value={shownType}
            onChange={(value) => setType(value as "CPU" | "GPU")}
            mt={4}
          />
        </div>
      </Input.Wrapper>
      <Select
        {...frame(props)}
        data={shown.map(({ name }) => name)}
        value={size && known.has(size.name) ? size.name : null}
        onChange={(name) => name && props.onChange(name)}
        searchable
        maxDropdownHeight={320}
        placeholder={isPending ? "Loading the sizes" : `Choose a ${shownType} size: a name, or 4 cores`}
        nothingFoundMessage="No size matches."
        filter={({ options, search }) => options.filter((option) => "value" in option && fits(known.get(String(option.value)), search))}
        renderOption={({ option }) => <SizeOption size={known.get(String(option.value))} />}
      />
      {size && <SizeNote size={size} isHere={isHere} />}
    </>
  );
}

const bySize = (one: VmSize, other: VmSize) => one.gpus - other.gpus || one.cores - other.cores || one.memory_gb - other.memory_gb;

function fits(size: VmSize | undefined, search: string): boolean {
  if (!size) return false;
  const text = `${size.name} ${size.family} ${plural(size.cores, "core")} ${size.memory_gb} GB`.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function SizeOption({ size }: { size?: VmSize }) {
  if (!size) return null;
  return (
    <div className={classes.sizeOption}>
      <span>
        {size.name}
        {size.gpus > 0 && ` · ${plural(size.gpus, "GPU")}`}
      </span>
      <span>{plural(size.cores, "core")}</span>
      <span>{size.memory_gb} GB</span>
      <span>{size.price === null ? "–" : `${money(size.price)}/h`}</span>
    </div>
  );
}

const price = (amount: number) => `$${Number(amount.toPrecision(3))}`;

function SizeNote({ size, isHere }: { size: VmSize; isHere: boolean }) {
  const { workspace } = useWorkspace();
  const [found, known] = [useQuery(targets(workspace)).data, useQuery(kinds(workspace)).data];
  const facts = [plural(size.cores, "core"), `${size.memory_gb} GB of memory`];
  if (size.gpus) facts.push(plural(size.gpus, "GPU"));
  if (size.price !== null) facts.push(`about ${price(size.price)} an hour`);
  if (size.low_priority_price !== null) facts.push(`${price(size.low_priority_price)} as low priority`);
  const here = found?.targets.find(
    (target) => known?.kinds.some(({ kind, is_this_computer: is }) => is && kind === target.kind) && target.inventory?.cores,
  );
  const cores = Number(here?.inventory?.cores ?? 0);
  const memory = Number(here?.inventory?.memory_mb ?? 0) / 1024;
  const isBeyond = isHere && cores > 0 && (size.cores > cores || (memory > 0 && size.memory_gb > memory));
  return (
    <>
      <Text size="sm" c="dimmed" mt={-8}>
        {size.family}: {facts.join(" · ")}
      </Text>
      {isBeyond && (
        <Alert color="yellow" variant="light" p="xs">
          Nodes are shares of this computer, which has {plural(cores, "core")}
          {memory > 0 && ` and ${memory.toFixed(1)} GB`}. They get what it has, unless the sizes are strict.
        </Alert>
      )}
    </>
  );
}

function TargetInput(props: InputProps) {
  const { workspace } = useWorkspace();
  const [found, known] = [useQuery(targets(workspace)).data, useQuery(kinds(workspace)).data];
  const attachable = new Set(known?.kinds.filter(({ is_attachable: is }) => is).map(({ kind }) => kind));
  const names = found?.targets.filter(({ kind }) => attachable.has(kind)).map(({ name }) => name) ?? [];
  return (
    <Select
      {...frame(props)}
      data={names}
      value={typeof props.value === "string" ? props.value : null}
      onChange={(name) => props.onChange(name ?? undefined)}
      searchable
      clearable
      clearButtonProps={{ "aria-label": `Clear ${props.field.label.toLowerCase()}` }}
      placeholder={names.length ? "None" : "No machine is attached yet"}
      nothingFoundMessage="No target matches."
    />
  );
}
