// Fuzz targets for all code that reads bytes from outside this process. Each target accepts any bytes and
// ends the process if the code under test breaks an invariant. libFuzzer drives them (tools/check --fuzz);
// corpus_test replays the kept corpus in the ordinary tests.
#pragma once

#include <string_view>

namespace mtrun::fuzz {

/// Messages of agents and services: a decoded message can be encoded and decodes to the same again.
void FuzzMessages(std::string_view bytes);
/// Lines of the channel between a worker and its agent.
void FuzzChannel(std::string_view bytes);
/// The job's state machine, driven by a cluster that the bytes describe, with tests/rendezvous/properties.h.
void FuzzStateMachine(std::string_view bytes);
/// Flags, environment and YAML files of a program, and a worker's environment.
void FuzzSettings(std::string_view bytes);
/// Headers of safetensors files.
void FuzzSafetensors(std::string_view bytes);
/// Error files of workers, and mtrun's own error file made from them.
void FuzzErrorFile(std::string_view bytes);
/// Data of ranks while they connect, and of unauthenticated peers.
void FuzzGreeting(std::string_view bytes);
/// Frames of a rank on another host, during two calls.
void FuzzFrames(std::string_view bytes);
/// The shared memory of a rank on the same host.
void FuzzSegment(std::string_view bytes);
/// Archives, the sets of the MNIST family and of CIFAR, as mtdata reads them.
void FuzzTar(std::string_view bytes);
void FuzzIdx(std::string_view bytes);
void FuzzCifar(std::string_view bytes);
/// Archives of images, archives in them included, as trees of files.
void FuzzArchive(std::string_view bytes);
/// Texts that describe a source's content: braces, classes, ground truth, WebDataset's labels.
void FuzzSources(std::string_view bytes);
/// JPEG and PNG files.
void FuzzImages(std::string_view bytes);
/// index.json and shards of a packed data set.
void FuzzIndex(std::string_view bytes);
/// The files from which a training run continues: manifest, state, ledger, metrics; and other ranks' claims.
void FuzzCheckpoint(std::string_view bytes);
/// mtreport's input from a run folder, one line each: metrics, or after a letter ledger, settings,
/// environment, report and manifest; and the page made from it.
void FuzzReport(std::string_view bytes);
/// Clients of the agent's PyTorch store.
void FuzzTcpStore(std::string_view bytes);
/// Lists and files of hosts for ssh, and the messages between the ends of such a connection.
void FuzzHosts(std::string_view bytes);
/// A process manager's answers over PMI2.
void FuzzPmi(std::string_view bytes);
/// A browser's input to the live page: headers, forms, credentials.
void FuzzPage(std::string_view bytes);
/// Python's pickles and the zip archives around them (.pth files).
void FuzzPickle(std::string_view bytes);

/// Requests, ranges and paths at a server of data sets; its URLs, redirects, and messages to fetchers.
void FuzzServing(std::string_view bytes);

}  // namespace mtrun::fuzz
