/** The identity that a target shows now, beside the one that was pinned, to be trusted anew. */
import { Button, Group, Modal, Stack, Text } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Target } from "@/api/queries";
import { Failure, Loading } from "@/components/states";
import { useWorkspace } from "@/lib/workspace";
import { IdentityCard } from "./identity-card";
import { probeTarget, renewTargets, trustTarget } from "./queries";

export function TrustDialog({ target, onClose }: { target: Target; onClose: () => void }) {
  const { workspace } = useWorkspace();
  const [isCompared, setCompared] = useState(false);
  const { data, error, refetch, isFetching } = useQuery({
    queryKey: ["probe", workspace, target.name],
    queryFn: () => probeTarget(workspace, target.name),
    gcTime: 0,
    staleTime: 0,
    retry: false,
    refetchOnWindowFocus: false,
  });
  const trust = useMutation({
    mutationFn: (pin: string) => trustTarget(workspace, target.name, pin, true),
    onSuccess: async () => {
      await renewTargets(workspace);
      onClose();
    },
  });
  const identity = data?.identity;
  const isSame = identity?.pin === target.pin;
  return (
    <Modal opened onClose={onClose} title={`The identity of ${target.name}`} size="lg">
      <Stack gap="sm">
        {error && !isFetching && <Failure error={error} retry={() => void refetch()} />}
        {isFetching && !data && <Loading rows={4} />}
        {data && !identity && <Text size="sm">Nothing is pinned of targets of this kind.</Text>}
        {identity && (
          <>
            <Text size="sm" role="status" c={isSame ? "var(--studio-good)" : "var(--studio-bad)"}>
              {isSame
                ? `It shows the ${identity.what} that was pinned.`
                : `It shows another ${identity.what} than the one that was pinned. Trust it only if the machine was set up anew.`}
            </Text>
            <IdentityCard
              identity={identity}
              endpoint={data.endpoint}
              isCompared={isCompared}
              onCompared={setCompared}
              former={isSame ? null : (target.pin_shown_as ?? target.pin)}
            />
          </>
        )}
        {trust.error && <Failure error={trust.error} />}
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          {identity && (
            <Button disabled={!isCompared} loading={trust.isPending} onClick={() => trust.mutate(identity.pin)}>
              Trust it
            </Button>
          )}
        </Group>
      </Stack>
    </Modal>
  );
}
