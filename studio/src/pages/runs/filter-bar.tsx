/** The filters of the table of runs: a text and a chip for each kind. `f` goes to the text. */
import { Button, Checkbox, Group, NumberInput, Radio, Select, Stack, Text, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { IconSearch } from "@tabler/icons-react";
import { type RefObject, useEffect, useRef, useState } from "react";

import { experiments, targets } from "@/api/queries";
import { listOf, type Search, textOf } from "@/lib/search";
import classes from "./filter-bar.module.css";
import { FilterChip } from "./filter-chip";
import { condition, conditionText, isFiltered, moment, STATES, withoutFilters } from "./filters";
import { runColumns } from "./queries";

type Props = {
  workspace: string;
  /** The experiment of the page, which is no filter then. */
  experiment?: string;
  search: Search;
  onChange: (change: Search) => void;
  onReplace: (search: Search) => void;
};

export function FilterBar({ workspace, experiment, search, onChange, onReplace }: Props) {
  const { data: known } = useQuery(runColumns(workspace, experiment ?? textOf(search.experiment)));
  const { data: machines } = useQuery(targets(workspace));
  const { data: series } = useQuery({ ...experiments(workspace), enabled: experiment === undefined });
  const names = [...new Set([...(machines?.targets.map(({ name }) => name) ?? []), ...(known?.targets ?? [])])].filter(Boolean);
  const list = (key: string, label: string, values: readonly string[]) => (
    <FilterChip key={key} label={label} value={listOf(search[key]).join(", ")} onClear={() => onChange({ [key]: undefined })}>
      {() => <Many label={label} values={values} chosen={listOf(search[key])} onChange={(chosen) => onChange({ [key]: chosen })} />}
    </FilterChip>
  );
  const one = (key: string, label: string, values: readonly string[]) => (
    <FilterChip key={key} label={label} value={textOf(search[key])} onClear={() => onChange({ [key]: undefined })}>
      {(close) => <One label={label} values={values} chosen={textOf(search[key])} onChange={(value) => (onChange({ [key]: value }), close())} />}
    </FilterChip>
  );
  return (
    <div className={classes.bar} role="group" aria-label="Filters">
      <SearchText value={textOf(search.search)} onChange={(value) => onChange({ search: value })} />
      {list("state", "State", ["active", ...STATES])}
      {experiment === undefined && one("experiment", "Experiment", series?.experiments.map(({ name }) => name) ?? [])}
      {one("target", "Target", names)}
      {list("submitted_by", "By", known?.members ?? [])}
      <FilterChip label="Tag" value={listOf(search.tag).join(", ")} onClear={() => onChange({ tag: undefined })}>
        {(close) => <TagFilter keys={known?.tags ?? []} onAdd={(tag) => (onChange({ tag: [...new Set([...listOf(search.tag), tag])] }), close())} />}
      </FilterChip>
      {listOf(search.where).map((each) => (
        <FilterChip
          key={each}
          label="Metric"
          value={conditionText(each)}
          onClear={() => onChange({ where: listOf(search.where).filter((other) => other !== each) })}
        >
          {(close) => (
            <MetricFilter
              names={known?.metrics ?? []}
              start={each}
              onAdd={(next) => (onChange({ where: listOf(search.where).map((other) => (other === each ? next : other)) }), close())}
            />
          )}
        </FilterChip>
      ))}
      <FilterChip label={listOf(search.where).length ? "+ Metric" : "Metric"} value="" width={320} onClear={() => undefined}>
        {(close) => (
          <MetricFilter names={known?.metrics ?? []} onAdd={(next) => (onChange({ where: [...new Set([...listOf(search.where), next])] }), close())} />
        )}
      </FilterChip>
      <FilterChip label="Time" value={timeText(search)} onClear={() => onChange({ since: undefined, until: undefined })}>
        {(close) => <TimeFilter search={search} onChange={(change) => (onChange(change), close())} />}
      </FilterChip>
      <FilterChip label="More" value={moreText(search)} width={270} onClear={() => onChange({ parent: undefined, archived: undefined, type: undefined })}>
        {() => <More search={search} onChange={onChange} />}
      </FilterChip>
      {isFiltered(search) && (
        <Button variant="subtle" size="compact-sm" onClick={() => onReplace(withoutFilters(search))}>
          Clear
        </Button>
      )}
    </div>
  );
}

function moreText(search: Search): string {
  const [parent, archived, type] = [textOf(search.parent), textOf(search.archived), textOf(search.type)];
  const texts = [
    parent && (parent === "none" ? "no children" : `children of ${parent}`),
    archived && (archived === "only" ? "only archived" : "also archived"),
    type,
  ];
  return texts.filter(Boolean).join(", ");
}

const CHILDREN = [["", "All runs"], ["none", "Only runs without a parent"]] as const;
const ARCHIVED = [["", "Without archived runs"], ["only", "Only archived runs"], ["all", "Also archived runs"]] as const;

function More({ search, onChange }: Pick<Props, "search" | "onChange">) {
  const choice = (key: string, label: string, values: readonly (readonly [string, string])[]) => (
    <Radio.Group label={label} size="xs" value={textOf(search[key])} onChange={(next) => onChange({ [key]: next || undefined })}>
      <Stack gap={7} pt={6}>
        {values.map(([each, text]) => (
          <Radio key={each} size="xs" value={each} label={text} />
        ))}
      </Stack>
    </Radio.Group>
  );
  return (
    <Stack gap="md" p={4}>
      {choice("parent", "Children", CHILDREN)}
      {choice("archived", "Archived runs", ARCHIVED)}
    </Stack>
  );
}

function SearchText({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  const apply = useDebouncedCallback(onChange, 250);
  useEffect(() => setText(value), [value]);
  useFocusKey(input);
  return (
    <TextInput
      ref={input}
      size="xs"
      className={classes.search}
      aria-label="Search runs"
      placeholder="Name, id, tag, argument"
      leftSection={<IconSearch size={14} />}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        apply(event.currentTarget.value.trim());
      }}
      onKeyDown={(event) => event.key === "Escape" && (setText(""), onChange(""), event.currentTarget.blur())}
    />
  );
}

function useFocusKey(input: RefObject<HTMLInputElement | null>) {
  useEffect(() => {
    function onKey(event: globalThis.KeyboardEvent) {
      const isTyping = (event.target as HTMLElement).closest("input:not([type=checkbox]), textarea, [role=dialog], [contenteditable=true]");
      if (event.key !== "f" || event.ctrlKey || event.metaKey || event.altKey || isTyping) return;
      event.preventDefault();
      input.current?.focus();
    }
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [input]);
}

type ManyProps = { label: string; values: readonly string[]; chosen: string[]; onChange: (chosen: string[]) => void };

/** Values to tick, with a text that narrows them if there are many. */
function Many({ label, values, chosen, onChange }: ManyProps) {
  const [text, setText] = useState("");
  const all = [...new Set([...values, ...chosen])].filter((value) => value.toLowerCase().includes(text.toLowerCase()));
  return (
    <Stack gap="xs">
      {values.length > 12 || text ? <Narrow text={text} setText={setText} /> : null}
      <Checkbox.Group aria-label={label} value={chosen} onChange={onChange}>
        <div className={classes.options}>
          {all.map((value) => (
            <Checkbox key={value} size="xs" p={4} value={value} label={value === "active" ? "Any that is active" : value} />
          ))}
        </div>
      </Checkbox.Group>
      {!all.length && <None />}
    </Stack>
  );
}

type OneProps = { label: string; values: readonly string[]; chosen: string; onChange: (value: string) => void };

function One({ label, values, chosen, onChange }: OneProps) {
  const [text, setText] = useState("");
  const all = values.filter((value) => value.toLowerCase().includes(text.toLowerCase()));
  return (
    <Stack gap="xs">
      {values.length > 8 && <Narrow text={text} setText={setText} />}
      <Radio.Group aria-label={label} value={chosen} onChange={onChange}>
        <div className={classes.options}>
          {all.map((value) => (
            <Radio key={value} size="xs" p={4} value={value} label={value} />
          ))}
        </div>
      </Radio.Group>
      {!all.length && <None />}
    </Stack>
  );
}

const Narrow = ({ text, setText }: { text: string; setText: (text: string) => void }) => (
  <TextInput size="xs" aria-label="Narrow the values" placeholder="Narrow" value={text} onChange={(event) => setText(event.currentTarget.value)} />
);

const None = () => (
  <Text size="sm" c="dimmed" p={4}>
    There is none.
  </Text>
);

function TagFilter({ keys, onAdd }: { keys: string[]; onAdd: (tag: string) => void }) {
  const [key, setKey] = useState("");
  const [value, setValue] = useState("");
  return (
    <form onSubmit={(event) => (event.preventDefault(), key && onAdd(value ? `${key}:${value}` : key))}>
      <Stack gap="xs">
        <TextInput size="xs" label="Tag" list="tag-keys" value={key} onChange={(event) => setKey(event.currentTarget.value)} data-autofocus />
        <datalist id="tag-keys">
          {keys.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        <TextInput size="xs" label="Value" placeholder="Any" value={value} onChange={(event) => setValue(event.currentTarget.value)} />
        <Button type="submit" disabled={!key}>
          Apply
        </Button>
      </Stack>
    </form>
  );
}

const OPERATORS = ["<", "<=", ">", ">=", "=", "!="];

function MetricFilter({ names, start, onAdd }: { names: string[]; start?: string; onAdd: (condition: string) => void }) {
  const [given, operator0, value0] = start ? (/^metric\.(.+?)(<=|>=|!=|=|<|>)([^<>=!]+)$/.exec(start)?.slice(1) ?? []) : [];
  const [name, setName] = useState(given ?? "");
  const [operator, setOperator] = useState(operator0 ?? "<");
  const [value, setValue] = useState<string | number>(value0 ?? "");
  const made = value === "" ? null : condition(`metric.${name}${operator}${value}`);
  return (
    <form onSubmit={(event) => (event.preventDefault(), made && onAdd(made))}>
      <Stack gap="xs">
        <TextInput size="xs" label="Metric" list="metric-names" value={name} onChange={(event) => setName(event.currentTarget.value)} data-autofocus />
        <datalist id="metric-names">
          {names.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
        <Group gap="xs" grow align="flex-end" wrap="nowrap">
          <Select size="xs" label="Comparison" data={OPERATORS} value={operator} onChange={(next) => next && setOperator(next)} comboboxProps={{ withinPortal: false }} />
          <NumberInput size="xs" label="Last value" value={value} onChange={setValue} hideControls decimalScale={20} />
        </Group>
        <Button type="submit" disabled={!name || !made}>
          Apply
        </Button>
      </Stack>
    </form>
  );
}

const RECENT: [string, string][] = [["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];

function timeText(search: Search): string {
  const [since, until] = [textOf(search.since), textOf(search.until)];
  const recent = RECENT.find(([value]) => value === since);
  if (recent && !until) return recent[1].toLowerCase();
  const texts = [since && (/^\d+[mhdw]$/.test(since) ? `last ${since}` : `since ${since}`), until && `until ${until}`];
  return texts.filter(Boolean).join(", ");
}

function TimeFilter({ search, onChange }: { search: Search; onChange: (change: Search) => void }) {
  const [since, setSince] = useState(textOf(search.since));
  const [until, setUntil] = useState(textOf(search.until));
  const isWrong = (text: string) => text !== "" && !moment(text);
  return (
    <form onSubmit={(event) => (event.preventDefault(), onChange({ since: since || undefined, until: until || undefined }))}>
      <Stack gap="xs">
        <Group gap={4}>
          {RECENT.map(([value, label]) => (
            <Button key={value} size="compact-xs" variant={search.since === value ? "light" : "default"} onClick={() => onChange({ since: value, until: undefined })}>
              {label}
            </Button>
          ))}
        </Group>
        <TextInput
          size="xs"
          label="Created since"
          placeholder="2d, or 2026-05-31"
          value={since}
          error={isWrong(since) && "Write it like 2d, 12h or 2026-05-31."}
          onChange={(event) => setSince(event.currentTarget.value)}
        />
        <TextInput
          size="xs"
          label="Created before"
          placeholder="1d, or 2026-05-31 18:00"
          value={until}
          error={isWrong(until) && "Write it like 2d, 12h or 2026-05-31."}
          onChange={(event) => setUntil(event.currentTarget.value)}
        />
        <Button type="submit" disabled={isWrong(since) || isWrong(until)}>
          Apply
        </Button>
      </Stack>
    </form>
  );
}
