import { Button, Group, Modal, Stack, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";

import { Failure } from "./states";

type Props = {
  opened: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
  /** The verb on the button. */
  action: string;
  run: () => Promise<unknown>;
  /** A text that must be typed before: for what cannot be taken back. */
  typed?: string;
  isDangerous?: boolean;
};

/** Asks before something is done, shows that it is being done, and the error if it failed. */
export function Confirm({ opened, onClose, title, children, action, run, typed, isDangerous = true }: Props) {
  const [text, setText] = useState("");
  const work = useMutation({ mutationFn: run, onSuccess: () => close() });
  function close() {
    setText("");
    work.reset();
    onClose();
  }
  return (
    <Modal opened={opened} onClose={close} title={title}>
      <Stack gap="sm">
        <Text component="div" size="sm">
          {children}
        </Text>
        {typed && (
          <TextInput
            label={`Type ${typed} to confirm`}
            value={text}
            onChange={(event) => setText(event.currentTarget.value)}
            data-autofocus
          />
        )}
        {work.error && <Failure error={work.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={close}>
            Back
          </Button>
          <Button
            color={isDangerous ? "red.8" : undefined}
            loading={work.isPending}
            disabled={typed !== undefined && text !== typed}
            onClick={() => work.mutate()}
          >
            {action}
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
