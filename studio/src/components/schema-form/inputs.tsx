/** The input of a field, by its type and format. */
import {
  ActionIcon,
  Button,
  FileButton,
  Group,
  Input,
  NumberInput,
  PasswordInput,
  SegmentedControl,
  Select,
  Stack,
  Switch,
  Textarea,
  TextInput,
} from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import { type ReactNode, useId } from "react";

import type { Field, Values } from "./fields";
import classes from "./schema-form.module.css";
import { validate } from "./validation";

export type InputProps = {
  field: Field;
  value: unknown;
  onChange: (value: unknown) => void;
  onFile?: (file: string) => void;
  onBlur?: () => void;
  error?: string;
  inputs?: Inputs;
};

/** Inputs by the format of a field. */
export type Inputs = Record<string, (props: InputProps) => ReactNode>;

const SEGMENTS = 3; // with more choices, a list
const SEGMENT_LETTERS = 40;
const LARGEST_FILE = 1 << 20;

export function FieldInput(props: InputProps) {
  const { field, inputs } = props;
  const own = inputs?.[field.format];
  if (own) return own(props);
  switch (field.type) {
    case "integer":
    case "number":
      return <NumberField {...props} />;
    case "boolean":
      return <BooleanField {...props} />;
    case "choice":
      return <ChoiceField {...props} />;
    case "list":
      return <ListField {...props} />;
    case "map":
      return <MapField {...props} />;
    case "object":
      return <ObjectField {...props} />;
    default:
      return field.format === "multiline" ? <TextareaField {...props} /> : <TextField {...props} />;
  }
}

/** What all inputs of a field have: label, help, required mark, message. */
export function frame({ field, error, onBlur }: InputProps) {
  return { label: field.label, description: helpOf(field), withAsterisk: field.isRequired, error, onBlur, required: false };
}

/** The description, with what stands in `…` as code. */
function helpOf(field: Field): ReactNode {
  if (!field.help) return undefined;
  const parts = field.help.split("`");
  return parts.length < 3 ? field.help : parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part));
}

const text = (value: unknown): string => (value === undefined || value === null ? "" : String(value));

function placeholderOf(field: Field): string | undefined {
  if (field.default !== undefined && field.default !== null && field.default !== "") return String(field.default);
  return field.example || undefined;
}

function TextField(props: InputProps) {
  const { field, value, onChange } = props;
  const shared = {
    ...frame(props),
    value: text(value),
    onChange: (event: { currentTarget: { value: string } }) => onChange(event.currentTarget.value || undefined),
    spellCheck: false,
  };
  if (field.isSecret) {
    return (
      <PasswordInput
        {...shared}
        autoComplete="new-password"
        visibilityToggleButtonProps={{ "aria-label": `Show or hide ${field.label.toLowerCase()}`, tabIndex: 0 }}
      />
    );
  }
  return <TextInput {...shared} placeholder={placeholderOf(field)} autoComplete="off" autoCapitalize="off" />;
}

function TextareaField(props: InputProps) {
  const { field, value, onChange, onFile } = props;
  async function read(file: File | null) {
    if (!file) return;
    if (file.size > LARGEST_FILE) return onChange(`${file.name} is larger than 1 MB.`);
    onChange(await file.text());
    onFile?.(file.name);
  }
  return (
    <Stack gap={6}>
      <Textarea
        {...frame(props)}
        className={field.isSecret ? classes.key : undefined}
        value={text(value)}
        onChange={(event) => onChange(event.currentTarget.value || undefined)}
        autosize
        minRows={field.isSecret ? 4 : 2}
        maxRows={10}
        spellCheck={false}
        autoComplete="off"
      />
      {(field.isSecret || field.cli.is_file) && (
        <FileButton onChange={(file) => void read(file)} inputProps={{ "aria-label": `File with ${field.label.toLowerCase()}` }}>
          {(button) => (
            <Button {...button} variant="default" w="fit-content">
              Read from a file
            </Button>
          )}
        </FileButton>
      )}
    </Stack>
  );
}

function NumberField(props: InputProps) {
  const { field, value, onChange } = props;
  return (
    <NumberInput
      {...frame(props)}
      classNames={{ wrapper: classes.narrow }}
      value={typeof value === "number" || typeof value === "string" ? value : ""}
      onChange={(given) => onChange(given === "" ? undefined : given)}
      allowDecimal={field.type === "number"}
      allowNegative={field.minimum === undefined || field.minimum < 0}
      min={field.minimum}
      max={field.maximum}
      clampBehavior="none"
      startValue={typeof field.default === "number" ? field.default : (field.minimum ?? 0)}
      placeholder={placeholderOf(field)}
      suffix={field.unit ? ` ${value === 1 ? field.unit.replace(/s$/, "") : field.unit}` : undefined}
    />
  );
}

function BooleanField({ field, value, onChange, error }: InputProps) {
  return (
    <Switch
      label={field.label}
      description={helpOf(field)}
      error={error}
      checked={(value ?? field.default) === true}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}

function ChoiceField(props: InputProps) {
  const { field, value, onChange, error } = props;
  const id = useId();
  const options = field.choices.map(({ value: each, label }) => ({ value: each, label }));
  const chosen = field.choices.find(({ raw }) => raw === (value ?? field.default))?.value ?? null;
  const choose = (each: string | null) => onChange(field.choices.find((choice) => choice.value === each)?.raw);
  const letters = options.reduce((sum, { label }) => sum + label.length, 0);
  if (field.isNullable || options.length > SEGMENTS || letters > SEGMENT_LETTERS) {
    return (
      <Select
        {...frame(props)}
        data={options}
        value={chosen}
        onChange={choose}
        clearable={field.isNullable}
        allowDeselect={field.isNullable}
        placeholder={field.isNullable ? "By what is given" : undefined}
        clearButtonProps={{ "aria-label": `Clear ${field.label.toLowerCase()}` }}
      />
    );
  }
  return (
    <Input.Wrapper
      label={field.label}
      labelElement="div"
      labelProps={{ id }}
      description={helpOf(field)}
      error={error}
      inputWrapperOrder={["label", "description", "input", "error"]}
    >
      <div>
        <SegmentedControl aria-labelledby={id} data={options} value={chosen ?? ""} onChange={choose} mt={4} />
      </div>
    </Input.Wrapper>
  );
}

function ListField({ field, value, onChange, error }: InputProps) {
  const items = Array.isArray(value) ? (value as unknown[]) : [];
  const set = (index: number, each: unknown) => onChange(items.map((old, at) => (at === index ? each : old)));
  const isNumber = field.items?.type === "integer" || field.items?.type === "number";
  return (
    <Several field={field} error={error} add={() => onChange([...items, isNumber ? 0 : ""])}>
      {items.map((each, index) => (
        <div key={index} className={classes.row} data-single>
          {isNumber ? (
            <NumberInput aria-label={`${field.label} ${index + 1}`} value={each as number} onChange={(given) => set(index, given)} />
          ) : (
            <TextInput
              aria-label={`${field.label} ${index + 1}`}
              value={text(each)}
              onChange={(event) => set(index, event.currentTarget.value)}
            />
          )}
          <Remove label={`Remove ${field.label} ${index + 1}`} remove={() => onChange(items.filter((_, at) => at !== index))} />
        </div>
      ))}
    </Several>
  );
}

function MapField({ field, value, onChange, error }: InputProps) {
  const entries = Object.entries((value ?? field.default ?? {}) as Values);
  const set = (changed: [string, unknown][]) => onChange(Object.fromEntries(changed));
  const replace = (index: number, entry: [string, unknown]) => set(entries.map((old, at) => (at === index ? entry : old)));
  return (
    <Several field={field} error={error} add={entries.some(([key]) => !key) ? undefined : () => set([...entries, ["", ""]])}>
      {entries.map(([key, each], index) => (
        <div key={index} className={classes.row}>
          <TextInput
            aria-label={`Name of ${field.label} ${index + 1}`}
            placeholder="Name"
            value={key}
            onChange={(event) => replace(index, [event.currentTarget.value, each])}
          />
          <TextInput
            aria-label={`Value of ${field.label} ${index + 1}`}
            placeholder="Value"
            value={text(each)}
            onChange={(event) => replace(index, [key, event.currentTarget.value])}
          />
          <Remove label={`Remove ${field.label} ${index + 1}`} remove={() => set(entries.filter((_, at) => at !== index))} />
        </div>
      ))}
    </Several>
  );
}

type SeveralProps = { field: Field; error?: string; add?: () => void; children: ReactNode };

function Several({ field, error, add, children }: SeveralProps) {
  const id = useId();
  return (
    <Input.Wrapper label={field.label} labelElement="div" labelProps={{ id }} description={helpOf(field)} error={error} withAsterisk={field.isRequired}>
      <Stack gap={6} mt={6} role="group" aria-labelledby={id}>
        {children}
        <Button variant="default" w="fit-content" leftSection={<IconPlus size={14} />} onClick={add} disabled={!add}>
          Add
          <span className="hidden-text"> to {field.label}</span>
        </Button>
      </Stack>
    </Input.Wrapper>
  );
}

function Remove({ label, remove }: { label: string; remove: () => void }) {
  return (
    <ActionIcon aria-label={label} onClick={remove}>
      <IconX size={15} />
    </ActionIcon>
  );
}

function ObjectField({ field, value, onChange, error, inputs }: InputProps) {
  const id = useId();
  const values = (value ?? {}) as Values;
  const errors = value === undefined ? {} : validate(field.fields ?? [], values);
  return (
    <Input.Wrapper label={field.label} labelElement="div" labelProps={{ id }} description={helpOf(field)} error={error} withAsterisk={field.isRequired}>
      <Group mt={6} className={classes.nested} role="group" aria-labelledby={id}>
        <Stack gap="sm" w="100%">
          {field.fields?.map((each) => (
            <FieldInput
              key={each.name}
              field={each}
              value={values[each.name]}
              onChange={(changed) => onChange({ ...values, [each.name]: changed })}
              error={errors[each.name]}
              inputs={inputs}
            />
          ))}
        </Stack>
      </Group>
    </Input.Wrapper>
  );
}
