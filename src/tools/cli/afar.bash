# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Completion of afar's words in bash. Which words may come next, afar itself says.

_afar()
{
	local line=${COMP_LINE:0:COMP_POINT} words=() candidate candidates cut='' i rest word

	# bash cuts words at ':' and '=' too: what stands together there is one word here.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		rest=${line#"${line%%[![:blank:]]*}"}
		((i < COMP_CWORD)) || word=$rest
		if ((i > 0)) && [[ $rest == "$line" ]]; then
			words[-1]+=$word
		else
			words+=("$word")
		fi
		line=${rest#"$word"}
	done

	candidates=$("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
	if [[ $candidates == :file ]]; then
		compopt -o default
		return
	fi
	word=${words[-1]}
	[[ $COMP_WORDBREAKS != *:* ]] || cut=${word%"${word##*[:=]}"}
	while IFS= read -r candidate; do
		[[ -n $candidate ]] || continue
		printf -v candidate %q "${candidate#"$cut"}"
		COMPREPLY+=("$candidate")
	done <<<"$candidates"
	# Behind a namespace comes its region, behind a directory what is in it.
	[[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *[:/] ]] || compopt -o nospace
}
complete -F _afar afar
